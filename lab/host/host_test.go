package host_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/lab/host"
)

// TestMain makes this program a child when it is started as one.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "serve" {
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, syscall.SIGTERM)
		fmt.Fprintln(os.Stderr, "last words")
		fmt.Print("socks 127.0.0.1:1\nready\n")
		<-stop
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestProcess: a child says what it has to say, can be measured, and ends.
func TestProcess(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no SIGTERM")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for name, end := range map[string]func(*host.Process) error{"stop": (*host.Process).Stop, "kill": (*host.Process).Kill} {
		p, said, err := host.Start(ctx, nil, os.Args[0], "serve")
		if err != nil {
			t.Fatal(err)
		}
		if len(said) != 1 || said["socks"] != "127.0.0.1:1" {
			t.Errorf("%s: it said %q", name, said)
		}
		if runtime.GOOS == "linux" {
			if u, err := host.UsageOf(p.PID()); err != nil || u.CPU <= 0 || u.RSS <= 0 || u.PeakRSS < u.Anon || u.Threads < 1 {
				t.Errorf("%s: %+v, %v", name, u, err)
			}
		}
		if err := end(p); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		<-p.Done()
		if !strings.Contains(p.LastWords(), "last words") {
			t.Errorf("%s: its last words: %q", name, p.LastWords())
		}
		if _, err := host.UsageOf(p.PID()); err == nil {
			t.Errorf("%s: a process that has ended is measured", name)
		}
	}
	if _, _, err := host.Start(ctx, nil, "/nonexistent"); !errors.Is(err, chive.ErrLocal) {
		t.Error(err)
	}
}

// TestPorts: a leased port is nobody else's until it is given back.
func TestPorts(t *testing.T) {
	var all host.Ports
	defer all.Release()
	seen := map[uint16]bool{}
	for range 20 {
		port, err := all.Take(netip.MustParseAddr("127.0.0.1"))
		if err != nil {
			t.Fatal(err)
		}
		if seen[port] {
			t.Errorf("port %d twice", port)
		}
		seen[port] = true
	}
}

// TestNamespace: a program in a namespace knows where it is, and no packet finds a way out until there is one.
func TestNamespace(t *testing.T) {
	if host.InNamespace() {
		t.Fatal("this test runs in a namespace already")
	}
	if err := host.CanNamespace(); err != nil {
		if _, err := host.NewNamespace(t.Context(), "chive-host-none"); err == nil {
			t.Error("a namespace was made all the same")
		}
		t.Skip("SKIPPED, NOTHING WAS TESTED: ", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ns, err := host.NewNamespace(ctx, fmt.Sprint("chive-host-", os.Getpid()))
	if err != nil {
		if strings.Contains(err.Error(), "Operation not permitted") {
			t.Skip("SKIPPED, NOTHING WAS TESTED: ", err)
		}
		t.Fatal(err)
	}
	defer func() {
		if err := ns.Close(); err != nil {
			t.Error(err)
		}
	}()
	routes := func() string {
		out, err := ns.Command(ctx, "ip", "route", "show", "default").CombinedOutput()
		if err != nil {
			t.Errorf("ip: %v: %s", err, out)
		}
		return string(out)
	}
	if got := routes(); got != "" {
		t.Errorf("a way out at the start: %q", got)
	}
	if err := ns.WayOut(ctx); err != nil {
		t.Fatal(err)
	}
	if got := routes(); !strings.Contains(got, "out0") {
		t.Errorf("no way out: %q", got)
	}
}
