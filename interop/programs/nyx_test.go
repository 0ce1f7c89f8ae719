package programs

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// screen is a terminal of tmux in which a program runs.
type screen struct {
	t      *testing.T
	socket string
}

// onScreen starts a command in a terminal of its own.
func onScreen(t *testing.T, command string) *screen {
	t.Helper()
	s := &screen{t: t, socket: filepath.Join(t.TempDir(), "tmux")}
	s.tmux("new-session", "-d", "-x", "140", "-y", "45", command)
	t.Cleanup(func() { exec.Command("tmux", "-S", s.socket, "kill-server").Run() })
	return s
}

func (s *screen) tmux(args ...string) string {
	s.t.Helper()
	return run(s.t, nil, "tmux", append([]string{"-S", s.socket}, args...)...)
}

// press presses keys, and waits until the screen has all of some texts.
func (s *screen) press(keys []string, want ...string) string {
	s.t.Helper()
	for _, k := range keys {
		s.tmux("send-keys", k)
	}
	text := ""
	for range 60 {
		text = s.tmux("capture-pane", "-p")
		missing := 0
		for _, w := range want {
			if !strings.Contains(text, w) {
				missing++
			}
		}
		if missing == 0 {
			return text
		}
		time.Sleep(500 * time.Millisecond) // tmux tells nobody when a screen changes
	}
	s.t.Errorf("after %q the screen lacks some of %q:\n%s", keys, want, text)
	return text
}

// TestNyx: each page of nyx shows what it should: graph, connections, options, torrc and interpreter.
func TestNyx(t *testing.T) {
	need(t, "tmux", "nyx", "curl")
	tor := start(t)
	s := onScreen(t, "HOME="+t.TempDir()+" nyx -i "+tor.Control)
	s.press(nil, "Tor 0.4.9.11-chive", "Relaying Disabled, Control Port (cookie)", "Bandwidth (limit", "Download (")
	run(t, nil, "curl", "-sS", "-o", "/dev/null", "-x", "socks5h://"+tor.Socks, lab.Target)
	s.press(nil, " MB)")
	s.press([]string{"Right"}, "page 2 / 5", "Connections (", " circuit", "-->", "chive")
	s.press([]string{"Right"}, "page 3 / 5", "Tor Configuration", "DataDirectory", "SocksPort", "Value: ")
	s.press([]string{"Right"}, "page 4 / 5", "Tor Configuration File", "DirAuthority authority0")
	s.press([]string{"Right", "Enter"}, "page 5 / 5", "Control Interpreter")
	s.press([]string{"GETINFO version", "Enter"}, "250-version=0.4.9.11-chive")
	s.press([]string{"/info chiverelay1", "Enter"}, "exit policy: reject 1-65535", "ntor-onion-key", "w Bandwidth=")
	s.press([]string{"SETCONF MaxCircuitDirtiness=44", "Enter", "GETCONF MaxCircuitDirtiness", "Enter"}, "250 MaxCircuitDirtiness=44")
}
