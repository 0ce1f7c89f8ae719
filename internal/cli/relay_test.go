package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chivenet/chive/lab"
	"github.com/chivenet/chive/relay"
)

// chive is a run of this program: the test's binary is one.
func chiveCommand(args ...string) *exec.Cmd {
	return &exec.Cmd{Path: os.Args[0], Args: append([]string{"chive"}, args...)}
}

// process is a run of a daemon.
type process struct {
	*exec.Cmd
	t     *testing.T
	dir   string
	lines map[string]string // what it said before it was ready, by the first word
	mu    sync.Mutex        // guards log
	log   bytes.Buffer
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(b)
}

func (p *process) said(s string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Contains(p.log.String(), s)
}

// daemonTime is the longest time that a daemon may run.
const daemonTime = 8 * time.Minute

// runDaemon runs a subcommand until the test ends, and returns when it is ready.
func runDaemon(t *testing.T, command, dir string, args ...string) *process {
	t.Helper()
	p := &process{Cmd: chiveCommand(append([]string{command, "--data-dir", dir}, args...)...), t: t, dir: dir, lines: map[string]string{}}
	p.Stderr = p
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	// A daemon that hangs prints its stacks.
	watchdog := time.AfterFunc(daemonTime, func() { p.Process.Signal(syscall.SIGQUIT) })
	t.Cleanup(func() {
		watchdog.Stop()
		if p.ProcessState == nil {
			p.Process.Kill()
			p.Wait()
		}
		if t.Failed() {
			t.Log(p.log.String())
		}
	})
	for s := bufio.NewScanner(out); s.Scan(); {
		if s.Text() == "ready" {
			return p
		}
		name, rest, _ := strings.Cut(s.Text(), " ")
		p.lines[name] = rest
	}
	t.Fatalf("it ended: %v: %s", p.Wait(), p.log.String())
	return nil
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// status asks the relay by chive status.
func (p *process) status() (st struct {
	Role string
	relay.Status
}) {
	p.t.Helper()
	out, err := chiveCommand("status", "--json", "--data-dir", p.dir).Output()
	if err == nil {
		err = json.Unmarshal(out, &st)
	}
	if err != nil {
		p.t.Fatalf("%v: %s", err, out)
	}
	return st
}

// await polls until f is true.
func await(t *testing.T, what string, f func() bool) {
	t.Helper()
	end := time.NewTimer(90 * time.Second)
	defer end.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		select {
		case <-end.C:
			t.Fatalf("%s: not after 90s", what)
		case <-tick.C:
		}
	}
}

// TestRelayCommand runs the exit of a network as an operator would: with a
// configuration file, status requests, a reload, and both kinds of shutdown.
func TestRelayCommand(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	nw, err := lab.Start(ctx, lab.Options{Relays: 2, Exits: 1, Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if err != nil {
		t.Fatal(err)
	}
	defer nw.Close()
	n := nw.Node("chiveexit0")
	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "relay.toml")
	configure := func(more string) {
		t.Helper()
		text := "nickname = 'chiveexit0'\nexit-policy = ['accept *:*']\nexit-private = true\nassume-reachable = true\nshutdown-wait = '1m'\n" + more
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	configure("bandwidth-rate = 4194304\n")
	args := []string{"--sandbox", "auto", "--config", file, "--network", nw.NetworkFile, "--orport", n.ORPort, "--nameserver", "127.0.0.1:1"}
	p := runDaemon(t, "relay", filepath.Join(nw.Dir, n.Name), args...)
	await(t, "the relay is listed", func() bool { return p.status().Listed })
	if st := p.status(); st.Role != "relay" || st.Fingerprint != n.Fingerprint || !st.Exit || !strings.Contains(st.Flags, "Exit") || st.Rate != 4<<20 || !st.MasterKeyHere {
		t.Errorf("%+v", st)
	}
	out, err := chiveCommand("status", "--data-dir", p.dir).Output()
	if err != nil || !strings.Contains(string(out), "relay      chiveexit0 "+n.Fingerprint) || !strings.Contains(string(out), "state      serving\n") {
		t.Errorf("%s %v", out, err)
	}

	// SIGHUP: live settings change, and the log names the others.
	configure("bandwidth-rate = 1048576\ncontact = 'new'\nmetrics = '127.0.0.1:0'\n")
	p.signal(syscall.SIGHUP)
	await(t, "the new limit", func() bool { return p.status().Rate == 1<<20 })
	await(t, "the log", func() bool {
		return p.said("take effect at the next start\" options=[metrics]") && p.said("[bandwidth-rate contact]")
	})
	configure("bandwidth-rate = 1\n")
	p.signal(syscall.SIGHUP)
	await(t, "the refusal", func() bool { return p.said("the settings in use stay") })
	if st := p.status(); st.Rate != 1<<20 {
		t.Errorf("%+v", st)
	}
	configure("bandwidth-rate = 1048576\n")

	// SIGTERM: open circuits continue, and then the relay ends.
	c := openStream(t, ctx, nw)
	await(t, "a stream", func() bool { return p.status().Streams > 0 })
	p.signal(syscall.SIGTERM)
	await(t, "draining", func() bool { return p.status().Draining })
	if err := echo(c, 1<<20); err != nil {
		t.Errorf("a stream while the relay drains: %v", err)
	}
	// The client keeps its circuits for other streams, so it must be closed.
	if err := nw.Client.Close(); err != nil {
		t.Error(err)
	}
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
}

// TestRelayCommandStopsTwice: a second SIGTERM ends a relay at once.
func TestRelayCommandStopsTwice(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	nw, err := lab.Start(ctx, lab.Options{Relays: 2, Exits: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer nw.Close()
	n := nw.Node("chiveexit0")
	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	p := runDaemon(t, "relay", filepath.Join(nw.Dir, n.Name), "--network", nw.NetworkFile, "--nickname", n.Name, "--orport", n.ORPort, "--exit-policy", "accept *:*",
		"--exit-private", "--nameserver", "127.0.0.1:1", "--assume-reachable", "--shutdown-wait", "1m", "--bandwidth-rate", "262144")
	c := openStream(t, ctx, nw)
	await(t, "a stream", func() bool { return p.status().Streams > 0 })
	p.signal(syscall.SIGTERM)
	await(t, "draining", func() bool { return p.status().Draining })
	p.signal(syscall.SIGTERM)
	if err := p.Wait(); err == nil || p.ProcessState.ExitCode() != exitKilled {
		t.Errorf("%v, not exit code %d", err, exitKilled)
	}
	if err := echo(c, 1); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the stream goes on without the relay: %v", err)
	}
}

// openStream opens a stream through the network to an echo server.
func openStream(t *testing.T, ctx context.Context, nw *lab.Network) net.Conn {
	t.Helper()
	c, err := nw.Client.Isolated().DialContext(ctx, "tcp", nw.Echo)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// echo sends n bytes, reads as many and compares them.
func echo(c net.Conn, n int) error {
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	sent := bytes.Repeat([]byte("what comes back "), n/16+1)[:n]
	written := make(chan error, 1)
	go func() {
		_, err := c.Write(sent)
		written <- err
	}()
	got := make([]byte, n)
	if _, err := io.ReadFull(c, got); err != nil {
		return err
	}
	if !bytes.Equal(got, sent) {
		return errors.New("other bytes came back")
	}
	return <-written
}
