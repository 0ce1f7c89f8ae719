//go:build unix

package child_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/child"
	"github.com/chivenet/chive/internal/panics"
)

// TestMain makes this program a child when it is started as one.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 {
		switch os.Args[1] {
		case "serve":
			stop := make(chan os.Signal, 1)
			signal.Notify(stop, syscall.SIGTERM)
			fmt.Print("socks 127.0.0.1:1\nname two words\nready\n")
			<-stop
			os.Exit(0)
		case "panic":
			fmt.Println("ready")
			slog.New(slog.NewTextHandler(os.Stderr, nil)).Error(panics.Logged + ": this is a mistake")
			stop := make(chan os.Signal, 1)
			signal.Notify(stop, syscall.SIGHUP)
			<-stop
		case "talk":
			stop := make(chan os.Signal, 1)
			signal.Notify(stop, syscall.SIGTERM)
			for range 300 {
				fmt.Println("word", strings.Repeat("x", 20_000))
			}
			fmt.Println("ready")
			<-stop
			os.Exit(0)
		case "fail":
			fmt.Fprintln(os.Stderr, "no such thing")
			os.Exit(3)
		case "silent":
			stop := make(chan os.Signal, 1)
			signal.Notify(stop, syscall.SIGHUP)
			<-stop
		}
	}
	os.Exit(m.Run())
}

// TestPanicIsAFailure: what a child contained fails who ran it, however it ends.
func TestPanicIsAFailure(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	heard := make(chan struct{}, 1)
	p, _, err := child.Start(ctx, signalling(heard), os.Args[0], "panic")
	if err != nil {
		t.Fatal(err)
	}
	<-heard
	if err := p.Kill(); err == nil || !strings.Contains(err.Error(), panics.Logged) {
		t.Errorf("the end of a child that panicked: %v", err)
	}
}

// signalling is a writer that says when it was written to.
type signalling chan struct{}

func (s signalling) Write(b []byte) (int, error) { s <- struct{}{}; return len(b), nil }

func TestStart(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p, said, err := child.Start(ctx, nil, os.Args[0], "serve")
	if err != nil {
		t.Fatal(err)
	}
	if said["socks"] != "127.0.0.1:1" || said["name"] != "two words" || len(said) != 2 {
		t.Errorf("it said %q", said)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	<-p.Done()
	if err := syscall.Kill(p.PID(), 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d after Stop: %v", p.PID(), err)
	}
}

// TestTalkative: a child may say much before it is ready, and little is kept.
func TestTalkative(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p, said, err := child.Start(ctx, nil, os.Args[0], "talk")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(said["word"]); n < 100_000 || n > 1<<20 {
		t.Errorf("%d bytes are kept", n)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}

func TestStartFails(t *testing.T) {
	if _, _, err := child.Start(t.Context(), nil, os.Args[0], "fail"); err == nil || !strings.Contains(err.Error(), "no such thing") {
		t.Errorf("error: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := child.Start(ctx, nil, os.Args[0], "silent"); !fault.Is(err, fault.Timeout) {
		t.Errorf("error: %v", err)
	}
	if _, _, err := child.Start(t.Context(), nil, "/nonexistent"); !fault.Is(err, fault.Local) {
		t.Errorf("error: %v", err)
	}
}

// TestChive: benches measure the chive that is beside them, if there is one.
func TestChive(t *testing.T) {
	self, err := child.Self()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := child.Chive(); err != nil || got != self {
		t.Errorf("alone: %q, %v", got, err)
	}
	beside := filepath.Join(filepath.Dir(self), "chive"+filepath.Ext(self))
	if err := os.WriteFile(beside, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(beside)
	if got, err := child.Chive(); err != nil || got != beside {
		t.Errorf("with another beside it: %q, %v", got, err)
	}
}
