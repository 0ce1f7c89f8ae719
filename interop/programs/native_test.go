package programs

import (
	"bufio"
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// native starts a command of Chive's own in the network, and returns the lines that it said until it was ready, by their first words.
func native(t *testing.T, command string, args ...string) map[string]string {
	t.Helper()
	cmd := exec.Command(chive, append([]string{command, "--network", lab.NetworkFile, "--data-dir", filepath.Join(t.TempDir(), "d")}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	said := map[string]string{}
	ready := false
	for s := bufio.NewScanner(out); !ready && s.Scan(); {
		word, rest, _ := strings.Cut(s.Text(), " ")
		said[word], ready = rest, word == "ready"
	}
	late.Stop()
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Errorf("chive %s: %v\n%s", command, err, stderr.String())
		}
	})
	if !ready {
		t.Fatalf("chive %s is not ready", command)
	}
	return said
}

// TestNyxNative: nyx shows a client and a relay that keep their options in Chive's own form, through their sockets.
func TestNyxNative(t *testing.T) {
	need(t, "tmux", "nyx", "curl")
	socket := filepath.Join(t.TempDir(), "c")
	proxy := native(t, "proxy", "--socks", "127.0.0.1:0", "--control", "unix:"+socket)
	s := onScreen(t, "HOME="+t.TempDir()+" nyx -s "+socket)
	s.press(nil, "Tor 0.4.9.11-chive", "Relaying Disabled", "Bandwidth", "Download (")
	run(t, nil, "curl", "-sS", "-o", "/dev/null", "-x", "socks5h://"+proxy["socks"], lab.Target)
	s.press(nil, " MB)")
	s.press([]string{"Right"}, "page 2 / 5", "Connections (", " circuit", "-->", "chive")
	s.press([]string{"Right"}, "page 3 / 5", "Tor Configuration", "SocksPort", "127.0.0.1:0")
	s.press([]string{"Right", "Right", "Enter"}, "page 5 / 5", "Control Interpreter")
	s.press([]string{"GETINFO chive/post-quantum", "Enter"}, "250-chive/post-quantum=ALL=")
	s.press([]string{"SETCONF SocksPort=0", "Enter"}, "the option socks of this process is on its command line")

	relay := native(t, "relay", "--nickname", "nyxsees", "--orport", "127.0.0.1:0", "--assume-reachable", "--accounting-max", "10000000000", "--control", "unix:"+socket+"r")
	rsa, _, _ := strings.Cut(relay["fingerprint"], " ")
	_, port, _ := strings.Cut(relay["orport"], ":")
	s = onScreen(t, "HOME="+t.TempDir()+" nyx -s "+socket+"r")
	s.press(nil, "nyxsees - 127.0.0.1:"+port, "fingerprint: "+rsa, "Accounting (awake)", "/ 9.3 GB")
	s.press([]string{"Right", "Right"}, "page 3 / 5", "Nickname", "nyxsees", "AccountingMax")
	s.press([]string{"Right", "Right", "Enter"}, "page 5 / 5", "Control Interpreter")
	s.press([]string{"GETINFO exit-policy/full", "Enter"}, "250-exit-policy/full=reject *:*")
	s.press([]string{"GETINFO chive/relay/memory", "Enter"}, "250-chive/relay/memory=HELD=")
}
