package linktun

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/chivenet/chive/chivelab/internal/links"
	"github.com/chivenet/chive/chivelab/internal/linkstack"
	"github.com/chivenet/chive/internal/namespace"
)

const parentEnv = "LINKTUN_PARENT"

func TestMain(m *testing.M) {
	namespace.Inside()
	if os.Getenv(parentEnv) != "" {
		parent()
	}
	os.Exit(m.Run())
}

var (
	here  = netip.MustParseAddr("10.0.0.1")
	there = netip.MustParseAddr("10.0.0.2")
)

// parent is a program that attaches a host and waits.
func parent() {
	h, err := Attach(links.NewNet(0), here, links.Access{}, Command{Args: []string{"sh", "-c", "echo started; sleep 1000"}, Output: os.Stdout})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	code, err := h.Run(context.Background())
	fmt.Println(code, err)
	os.Exit(1)
}

// attach makes a host that runs a shell's line, and returns what that printed.
func attach(t *testing.T, n *links.Net, access links.Access, line string) (*Host, *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	defer w.Close()
	h, err := Attach(n, here, access, Command{Args: []string{"sh", "-c", line}, Output: w})
	if errors.Is(err, ErrDenied) {
		t.Skip("SKIPPED:", err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h, r
}

// TestProgram: a program that knows nothing of this reaches a host of this process, over the link, with the
// address and the MTU that were given, and its exit code comes back.
func TestProgram(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("SKIPPED:", err)
	}
	n := links.NewNet(0)
	defer n.Close()
	b, err := linkstack.Attach(n, there, links.Access{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	l, err := b.Listen(80)
	if err != nil {
		t.Fatal(err)
	}
	from := make(chan string, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		from <- c.RemoteAddr().String()
		for lines := bufio.NewScanner(c); lines.Scan() && lines.Text() != ""; {
		}
		io.WriteString(c, "HTTP/1.0 200 OK\r\n\r\n"+strings.Repeat("x", 100_000))
	}()
	d := links.Direction{Rules: links.Rules{MTU: 1300}}
	h, out := attach(t, n, links.Access{Up: d, Down: d}, "ip link show tun0 | grep -o 'mtu [0-9]*'; curl -s http://10.0.0.2/ | wc -c; exit 7")
	code, err := h.Run(t.Context())
	if code != 7 || err != nil {
		t.Errorf("exit code %d, %v", code, err)
	}
	if got, err := io.ReadAll(out); err != nil || !strings.Contains(string(got), "100000") || !strings.Contains(string(got), "mtu 1300") {
		t.Errorf("%q, %v", got, err)
	}
	if at := <-from; !strings.HasPrefix(at, here.String()+":") {
		t.Error("the connection comes from", at)
	}
	if h.Port().Up().Count(links.Passed) < 3 || h.Port().Down().Count(links.Passed) < 100_000/1300 {
		t.Error("the packets did not go over the link")
	}
	if h.Port().Up().Count(links.TooLong)+h.Port().Down().Count(links.TooLong) > 0 {
		t.Error("a host sends packets that are longer than its MTU")
	}
}

// TestCongestion: connections of a program have the congestion control that its host was given, whatever the machine's is.
func TestCongestion(t *testing.T) {
	n := links.NewNet(0)
	defer n.Close()
	for _, c := range []struct {
		algorithm, want string
	}{{"reno", "reno"}, {"", ofMachine(t)}} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		h, err := Attach(n, here, links.Access{}, Command{Args: []string{"cat", congestionFile}, Output: w, Congestion: c.algorithm})
		w.Close()
		if errors.Is(err, ErrDenied) {
			t.Skip("SKIPPED:", err)
		} else if err != nil {
			t.Fatal(err)
		}
		if code, err := h.Run(t.Context()); code != 0 || err != nil {
			t.Errorf("exit code %d, %v", code, err)
		}
		h.Close()
		if got, err := io.ReadAll(r); err != nil || strings.TrimSpace(string(got)) != c.want {
			t.Errorf("of %q: %q, %v", c.algorithm, got, err)
		}
	}
	if h, err := Attach(n, here, links.Access{}, Command{Args: []string{"true"}, Congestion: "nonsense"}); err == nil {
		h.Close()
		t.Error("an algorithm that no kernel has")
	}
}

const congestionFile = "/proc/sys/net/ipv4/tcp_congestion_control"

func ofMachine(t *testing.T) string {
	b, err := os.ReadFile(congestionFile)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// TestClose: Close ends a program that waits, and all of its own that it has started.
func TestClose(t *testing.T) {
	before := runtime.NumGoroutine()
	n := links.NewNet(0)
	h, out := attach(t, n, links.Access{}, "sleep 1000 & echo started; wait")
	done := make(chan error)
	go func() { _, err := h.Run(t.Context()); done <- err }()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "started\n" {
		t.Fatal(line, err)
	}
	h.Close()
	if err := <-done; err == nil {
		t.Error("the program was ended, and Run says nothing of it")
	}
	if b, err := io.ReadAll(out); err != nil { // until the last that had the pipe has gone
		t.Error(b, err)
	}
	h.Close()
	n.Close()
	for runtime.NumGoroutine() > before { // the test's time bounds it
		runtime.Gosched()
	}
}

// TestMistakes: what cannot be attached is an error, and leaves nothing.
func TestMistakes(t *testing.T) {
	n := links.NewNet(0)
	defer n.Close()
	if _, err := Attach(n, here, links.Access{}, Command{}); err == nil {
		t.Error("a host without a program")
	}
	if _, err := Attach(n, here, links.Access{}, Command{Args: []string{"no-such-program"}}); err == nil {
		t.Error("a program that is not there")
	}
	attach(t, n, links.Access{}, "true")
	if _, err := Attach(n, here, links.Access{}, Command{Args: []string{"true"}}); err == nil {
		t.Error("two hosts have one address")
	}
}

// TestKilled: when the process that emulates is killed, the processes in the namespaces end, and with them the
// namespaces and the device, which have no name.
func TestKilled(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), parentEnv+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	lines := bufio.NewReader(out)
	switch line, err := lines.ReadString('\n'); {
	case strings.Contains(line, ErrDenied.Error()):
		t.Skip("SKIPPED:", line)
	case line != "started\n":
		t.Fatal(line, err)
	}
	var ends []int
	for pids := []int{cmd.Process.Pid}; len(pids) > 0; {
		below := children(t, pids[0])
		for _, pid := range below {
			fd, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(fd)
			ends = append(ends, fd)
		}
		pids = append(pids[1:], below...)
	}
	if len(ends) < 2 { // init and the shell
		t.Fatalf("%d processes in the namespaces", len(ends))
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, fd := range ends {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		for {
			if n, err := unix.Poll(fds, -1); n > 0 {
				break
			} else if err != unix.EINTR {
				t.Fatal(err)
			}
		}
	}
}

// children returns the processes that a process has started.
func children(t *testing.T, pid int) (out []int) {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, task.Name()))
		if errors.Is(err, os.ErrNotExist) {
			continue // the thread has ended
		} else if err != nil {
			t.Fatal(err)
		}
		for _, f := range strings.Fields(string(b)) {
			n, err := strconv.Atoi(f)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, n)
		}
	}
	return out
}

// TestInput: a program reads what it is given, and gets signals.
func TestInput(t *testing.T) {
	n := links.NewNet(0)
	defer n.Close()
	in, tell, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer tell.Close()
	out, said, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	line := "trap 'echo hangup; exit 5' HUP; read x; echo \"$x\"; while :; do sleep 0.01; done"
	h, err := Attach(n, here, links.Access{}, Command{Args: []string{"sh", "-c", line}, Input: in, Output: said})
	in.Close()
	said.Close()
	if errors.Is(err, ErrDenied) {
		t.Skip("SKIPPED:", err)
	} else if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	code := make(chan int, 1)
	go func() {
		c, err := h.Run(t.Context())
		if err != nil {
			t.Error(err)
		}
		code <- c
	}()
	if _, err := tell.WriteString("a word\n"); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	if got, err := lines.ReadString('\n'); got != "a word\n" {
		t.Fatalf("%q, %v", got, err)
	}
	h.Signal(unix.SIGHUP)
	if got, err := lines.ReadString('\n'); got != "hangup\n" {
		t.Fatalf("%q, %v", got, err)
	}
	if c := <-code; c != 5 {
		t.Errorf("exit code %d", c)
	}
	for range 100 { // nobody takes them
		h.Signal(unix.SIGHUP)
	}
}
