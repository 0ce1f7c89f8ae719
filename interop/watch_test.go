package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/chivenet/chive/internal/lab/labtest"
)

// tmux is a terminal with a shell in it.
type tmux struct {
	t    *testing.T
	sock string
}

func newTmux(t *testing.T, columns, rows int) *tmux {
	t.Helper()
	_, err := exec.LookPath("tmux")
	labtest.Need(t, "tmux", err)
	dir, err := os.MkdirTemp("", "chive-tmux-") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	m := &tmux{t, filepath.Join(dir, "s")}
	t.Cleanup(func() {
		// The test's context has ended.
		if err := exec.Command("tmux", "-S", m.sock, "kill-server").Run(); err != nil {
			t.Error(err)
		}
		os.RemoveAll(dir)
	})
	m.do("new-session", "-d", "-x", fmt.Sprint(columns), "-y", fmt.Sprint(rows), "env", "LANG=C.UTF-8", "PS1=$ ", "sh")
	return m
}

func (m *tmux) do(args ...string) string {
	return tool(m.t, "tmux", append([]string{"-f", "/dev/null", "-u", "-S", m.sock}, args...)...)
}

func (m *tmux) keys(keys ...string) { m.do(append([]string{"send-keys"}, keys...)...) }

// sees waits until every text is on the terminal.
func (m *tmux) sees(texts ...string) (page string) {
	m.t.Helper()
	defer func() {
		if m.t.Failed() {
			m.t.Logf("the terminal shows\n%s", page)
		}
	}()
	await(m.t, fmt.Sprintf("%q on the terminal", texts), patience, func() bool {
		page = m.do("capture-pane", "-p")
		for _, text := range texts {
			if !strings.Contains(page, text) {
				return false
			}
		}
		return true
	})
	return page
}

// TestWatch uses chive status --watch, newnym and get on a terminal, as a person would.
func TestWatch(t *testing.T) {
	if testing.Short() {
		t.Skip("short: nothing against other programs")
	}
	m := newTmux(t, 80, 24)
	nw := network(t, "vanilla")
	defer quiet(t, nw)()
	bin, dir := command(t), t.TempDir()
	cmd, _ := runProxy(t, bin, nw, dir)
	watch := fmt.Sprintf("clear; %s status --watch --data-dir %s; echo ended $?; stty -a | grep -o '[-]*icanon'", bin, dir)

	m.keys(watch, "Enter")
	m.sees("chive proxy", "ready", "down ", " Circuits ", " > ", "q quit")
	m.keys("3")
	m.sees("reachable, confirmed")
	m.keys("4")
	m.sees("INFO bootstrap percent=100")
	m.do("resize-window", "-x", "40", "-y", "12")
	m.sees("up/down scrol\n")
	m.do("resize-window", "-x", "120", "-y", "40")
	m.sees("? help")
	m.keys("n")
	m.sees("new identity: new connections use new circuits")
	m.keys("n")
	m.sees("the next new identity is possible in ")
	m.keys("q")
	m.sees("ended 0", "\nicanon")

	// A signal leaves the terminal as it was, too.
	m.keys(watch, "Enter")
	m.sees("q quit")
	m.keys("p")
	m.sees("PAUSED")
	pids := strings.Fields(tool(t, "pgrep", "-f", "^"+bin+" status --watch --data-dir "+dir))
	if len(pids) != 1 {
		t.Fatalf("processes %q", pids)
	}
	tool(t, "kill", "-TERM", pids[0])
	m.sees("ended 0", "\nicanon")

	if out := tool(t, bin, "newnym", "--data-dir", dir); !strings.HasPrefix(out, "new identity") {
		t.Errorf("%q", out)
	}
	if err := end(t, cmd, syscall.SIGTERM); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
	m.keys("clear; "+bin+" status --watch --data-dir "+dir, "Enter")
	m.sees("no proxy, relay or authority runs with the data directory")
	m.keys("C-c")
}
