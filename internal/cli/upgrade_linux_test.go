package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	landlock "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

// upgrading is a process that may be told to let its successor take over.
type upgrading struct {
	*process
	said *shared // standard output
}

// startUpgrading starts a program with a command line; path is its file.
func startUpgrading(t *testing.T, path string, args ...string) *upgrading {
	t.Helper()
	u := &upgrading{&process{Cmd: chiveCommand(args...), t: t}, new(shared)}
	u.Path, u.Stdout, u.Stderr = path, u.said, u.process
	if err := u.Start(); err != nil {
		t.Fatal(err)
	}
	watchdog := time.AfterFunc(daemonTime, func() { u.Process.Signal(syscall.SIGQUIT) })
	t.Cleanup(func() {
		watchdog.Stop()
		if u.ProcessState == nil {
			u.Process.Kill()
			u.Wait()
		}
		if t.Failed() {
			t.Log(u.said.String(), u.log.String())
		}
	})
	return u
}

// runs waits until the n-th program in the process has its ports open, and returns the address of one.
func (u *upgrading) runs(n int, port string) (addr string) {
	u.t.Helper()
	await(u.t, fmt.Sprint("program ", n), func() bool {
		seen := 0
		for s := bufio.NewScanner(strings.NewReader(u.said.String())); s.Scan(); {
			if word, rest, _ := strings.Cut(s.Text(), " "); word == port {
				addr = rest
				seen++
			}
		}
		return seen >= n
	})
	return addr
}

// greet connects to a SOCKS port, and waits for the answer to a greeting.
func greet(network, addr string) (net.Conn, error) {
	c, err := net.DialTimeout(network, addr, longest)
	if err != nil {
		return nil, err
	}
	c.SetDeadline(time.Now().Add(longest))
	_, err = c.Write([]byte{5, 1, 0})
	if err == nil {
		_, err = io.ReadFull(c, make([]byte, 2))
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// connecting connects again and again until end is called, which returns how often that went well.
func connecting(connect func() (net.Conn, error)) (end func() (int, error)) {
	stop := make(chan struct{})
	var wg sync.WaitGroup
	n, failed := 0, error(nil)
	wg.Go(func() {
		for ; failed == nil; n++ {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond): // others use this machine, too
			}
			var c net.Conn
			if c, failed = connect(); failed == nil {
				c.Close()
			}
		}
	})
	return func() (int, error) { close(stop); wg.Wait(); return n, failed }
}

// copyProgram copies a program to a new file, which takes the place of another if there is one: so does an
// upgrade of a package.
func copyProgram(t *testing.T, from, to string) {
	t.Helper()
	program, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to+".new", program, 0o700)
	}
	if err == nil {
		err = os.Rename(to+".new", to)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestUpgrade: whoever connects while a proxy hands over to its successor, is served by one of the two. The
// process stays the same, and so do the ports that the system has chosen.
func TestUpgrade(t *testing.T) {
	program := filepath.Join(t.TempDir(), "bin", "chive")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "github.com/chivenet/chive/cmd/chive")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as users have it: a sandbox keeps it from libraries
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, sandbox := range []string{"off", "require"} {
		t.Run(sandbox, func(t *testing.T) {
			if v, err := landlock.LandlockGetABIVersion(); sandbox == "require" && (err != nil || v < 3) {
				t.Skip("SKIPPED, NOTHING WAS TESTED: this kernel has no Landlock, or an old one")
			}
			dir := t.TempDir()
			network := writeFile(t, filepath.Join(dir, "net.toml"), lonely)
			if err := os.Mkdir(filepath.Join(dir, "ports"), 0o700); err != nil {
				t.Fatal(err)
			}
			local := filepath.Join(dir, "ports", "socks")
			u := startUpgrading(t, program, "proxy", "--network", network, "--data-dir", filepath.Join(dir, "data"), "--sandbox", sandbox,
				"--socks", "unix:"+local, "--socks", "127.0.0.1:0", "--dns", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--drain", "1s")
			addr, metrics, names := u.runs(1, "socks"), u.runs(1, "metrics"), u.runs(1, "dns")
			await(t, "both SOCKS ports", func() bool { addr = u.runs(1, "socks"); return !strings.HasPrefix(addr, "/") })
			ends := map[string]func() (int, error){
				addr:    connecting(func() (net.Conn, error) { return greet("tcp", addr) }),
				local:   connecting(func() (net.Conn, error) { return greet("unix", local) }),
				metrics: connecting(func() (net.Conn, error) { return net.Dial("tcp", metrics) }),
				names:   connecting(func() (net.Conn, error) { return net.Dial("tcp", names) }),
			}
			const upgrades = 3
			for n := range upgrades {
				copyProgram(t, program, program)
				u.signal(syscall.SIGUSR2)
				if now := u.runs(n+2, "metrics"); now != metrics {
					t.Errorf("the metrics are at %s, and were at %s", now, metrics)
				}
				u.runs(2*(n+2), "socks")
			}
			for addr, end := range ends {
				n, err := end()
				if err != nil || n < upgrades {
					t.Errorf("%s: after %d connections: %v", addr, n, err)
				}
			}
			if strings.Count(u.said.String(), "socks "+addr+"\n") != 1+upgrades {
				t.Error("the SOCKS port is not where it was")
			}
			u.signal(syscall.SIGTERM)
			if err := u.Wait(); err != nil {
				t.Error(err)
			}
			if _, err := os.Lstat(local); !errors.Is(err, os.ErrNotExist) {
				t.Error("the last program leaves its socket:", err)
			}
		})
	}
}

// TestUpgradeOfRelay: a relay's ports take connections all the time.
func TestUpgradeOfRelay(t *testing.T) {
	dir := t.TempDir()
	network := writeFile(t, filepath.Join(dir, "net.toml"), lonely)
	u := startUpgrading(t, os.Args[0], "relay", "--network", network, "--data-dir", filepath.Join(dir, "data"),
		"--orport", "127.0.0.1:0", "--dirport", "127.0.0.1:0", "--assume-reachable")
	or, dp := u.runs(1, "orport"), u.runs(1, "dirport")
	relay := u.runs(1, "fingerprint")
	var ends []func() (int, error)
	for _, addr := range []string{or, dp} {
		ends = append(ends, connecting(func() (net.Conn, error) { return net.Dial("tcp", addr) }))
	}
	u.signal(syscall.SIGUSR2)
	if next := u.runs(2, "fingerprint"); next != relay || u.runs(2, "orport") != or || u.runs(2, "dirport") != dp {
		t.Error("the successor is another relay:", next)
	}
	for _, end := range ends {
		if n, err := end(); err != nil || n == 0 {
			t.Errorf("after %d connections: %v", n, err)
		}
	}
	u.signal(syscall.SIGTERM)
	if err := u.Wait(); err != nil {
		t.Error(err)
	}
	if u.said.String() == "" || strings.Contains(u.log.String(), "level=ERROR") {
		t.Error("the log has errors")
	}
}

// TestUpgradeRefused: a successor that would not start does not take over.
func TestUpgradeRefused(t *testing.T) {
	dir := t.TempDir()
	network, config := writeFile(t, filepath.Join(dir, "net.toml"), lonely), writeFile(t, filepath.Join(dir, "proxy.toml"), "socks = '127.0.0.1:0'\n")
	args := []string{"proxy", "--network", network, "--config", config, "--data-dir", filepath.Join(dir, "data"), "--drain", "1s"}
	const stays = "the program is not replaced, and goes on"
	t.Run("settings", func(t *testing.T) {
		u := startUpgrading(t, os.Args[0], args...)
		addr := u.runs(1, "socks")
		writeFile(t, config, "socks = 1\n")
		u.signal(syscall.SIGUSR2)
		await(t, "the refusal", func() bool { return u.said2(stays, "proxy.toml:1: socks") })
		c, err := greet("tcp", addr)
		if err != nil {
			t.Fatal("the program does not go on:", err)
		}
		c.Close()
		writeFile(t, config, "socks = '127.0.0.1:0'\n")
		u.signal(syscall.SIGUSR2)
		if now := u.runs(2, "socks"); now != addr {
			t.Errorf("the port is at %s, and was at %s", now, addr)
		}
	})
	t.Run("no program", func(t *testing.T) {
		program := filepath.Join(t.TempDir(), "program")
		copyProgram(t, os.Args[0], program)
		u := startUpgrading(t, program, args...)
		u.runs(1, "socks")
		if err := os.Remove(program); err != nil {
			t.Fatal(err)
		}
		u.signal(syscall.SIGUSR2)
		await(t, "the refusal", func() bool { return u.said2(stays, "no such file") })
	})
	t.Run("sandbox", func(t *testing.T) {
		if v, err := landlock.LandlockGetABIVersion(); err != nil || v < 3 {
			t.Skip("SKIPPED, NOTHING WAS TESTED: this kernel has no Landlock, or an old one")
		}
		u := startUpgrading(t, os.Args[0], append(args, "--sandbox", "require")...)
		u.runs(1, "socks")
		u.signal(syscall.SIGUSR2)
		await(t, "the refusal", func() bool { return u.said2(stays, "the sandbox keeps the program from being started") })
	})
}

// said2 reports whether a line of the log has both texts.
func (u *upgrading) said2(a, b string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	for l := range strings.Lines(u.log.String()) {
		if strings.Contains(l, a) && strings.Contains(l, b) {
			return true
		}
	}
	return false
}

// TestUpgradeWaits: the successor waits for open connections, unless it is asked for twice; and a program
// that is told to stop meanwhile has none.
func TestUpgradeWaits(t *testing.T) {
	begin := func(t *testing.T) (u *upgrading, addr string, open net.Conn) {
		dir := t.TempDir()
		network := writeFile(t, filepath.Join(dir, "net.toml"), lonely)
		u = startUpgrading(t, os.Args[0], "proxy", "--network", network, "--data-dir", filepath.Join(dir, "data"), "--socks", "127.0.0.1:0", "--drain", "1h")
		addr = u.runs(1, "socks")
		open, err := greet("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { open.Close() })
		u.signal(syscall.SIGUSR2)
		await(t, "the hand-over", func() bool { return u.process.said("handing over") })
		return u, addr, open
	}
	t.Run("twice", func(t *testing.T) {
		u, addr, open := begin(t)
		late, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer late.Close()
		u.signal(syscall.SIGUSR2)
		u.runs(2, "socks")
		if _, err := open.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("the open connection goes on:", err)
		}
		late.SetDeadline(time.Now().Add(longest))
		if _, err := late.Write([]byte{5, 1, 0}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(late, make([]byte, 2)); err != nil {
			t.Error("the successor does not serve who came before it:", err)
		}
	})
	t.Run("stopped", func(t *testing.T) {
		u, addr, open := begin(t)
		u.signal(syscall.SIGTERM)
		await(t, "the end of the hand-over", func() bool { return u.process.said("nothing is handed over") })
		await(t, "the refusal", func() bool {
			c, err := net.Dial("tcp", addr)
			if err == nil {
				c.Close()
			}
			return errors.Is(err, syscall.ECONNREFUSED)
		})
		open.Close()
		if err := u.Wait(); err != nil {
			t.Error(err)
		}
		if strings.Count(u.said.String(), "socks ") != 1 {
			t.Error("a successor began")
		}
	})
}
