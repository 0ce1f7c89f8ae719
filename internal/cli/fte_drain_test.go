package cli

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestFTEHTTPDrain ends a server over HTTP by a signal while a program downloads: the program
// gets all of it. When the time is over, or after a second signal, it sees that its
// connection broke.
func TestFTEHTTPDrain(t *testing.T) {
	keys := filepath.Join(t.TempDir(), "keys")
	cert, err := runChive(t.Context(), "fte", "keygen", keys)
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]struct {
		drain string
		again bool // a second signal
		first syscall.Signal
	}{"whole": {drain: "5m"}, "whole after its terminal closed": {drain: "5m", first: syscall.SIGHUP}, "cut": {drain: "100ms"}, "cut by a second signal": {drain: "5m", again: true}} {
		t.Run(name, func(t *testing.T) {
			if v.first == syscall.SIGHUP && signal.Ignored(syscall.SIGHUP) {
				t.Skip("SIGHUP is ignored here, as nohup(1) has it, and so it is in what a test starts")
			}
			target, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer target.Close()
			opened := make(chan net.Conn, 1000)
			go func() {
				for {
					c, err := target.Accept()
					if err != nil {
						return
					}
					c.Write([]byte("!"))
					opened <- c
				}
			}()
			_, behind, _ := net.SplitHostPort(target.Addr().String())
			port, front := freePort(t), freePort(t)
			first := v.first
			if first == 0 {
				first = syscall.SIGTERM
			}
			start := func(args ...string) (end func() error, signal func()) {
				p := chiveCommand(append([]string{"fte", "--quiet", "--protocol", "chive", "--http", "--server-port", port, "--drain", v.drain}, args...)...)
				if err := p.Start(); err != nil {
					t.Fatal(err)
				}
				watchdog := time.AfterFunc(daemonTime, func() { p.Process.Kill() })
				t.Cleanup(func() { watchdog.Stop(); p.Process.Kill() })
				return p.Wait, func() { p.Process.Signal(first) }
			}
			serverEnd, stopServer := start("--mode", "server", "--key-file", keys, "--proxy-port", behind)
			clientEnd, stopClient := start("--mode", "client", "--cert", strings.TrimSpace(cert), "--client-port", front)
			open := func() net.Conn {
				c, err := net.Dial("tcp", "127.0.0.1:"+front)
				if err != nil {
					return nil
				}
				c.SetDeadline(time.Now().Add(time.Minute))
				if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
					c.Close()
					return nil
				}
				return c
			}
			var near net.Conn
			await(t, "a connection through both", func() bool { near = open(); return near != nil })
			defer near.Close()
			far := <-opened
			defer far.Close()
			ended := make(chan error, 1)
			go func() { ended <- serverEnd() }()
			stopServer()
			await(t, "the server takes no new connections", func() bool {
				c := open()
				if c != nil {
					c.Close()
					(<-opened).Close() // else it stays half-closed, and the server waits for it
				}
				return c == nil
			})
			if v.first == syscall.SIGHUP {
				stopServer() // the shell and the kernel may both send one
			}
			if v.drain == "5m" && !v.again {
				msg := bytes.Repeat([]byte("what is left "), 300_000/13)
				go func() { far.Write(msg); far.Close() }()
				if got, err := io.ReadAll(near); err != nil || !bytes.Equal(got, msg) {
					t.Errorf("%d of %d bytes, %v", len(got), len(msg), err)
				}
				near.Close()
				if err := <-ended; err != nil {
					t.Error("the server:", err)
				}
			} else {
				await(t, "the server ends", func() bool {
					if v.again {
						stopServer()
					}
					select {
					case <-ended:
						return true
					default:
						return false
					}
				})
				near.SetDeadline(time.Now().Add(time.Minute))
				if n, err := near.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) || errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("%d bytes, %v: a cut connection looks whole", n, err)
				}
			}
			stopClient()
			if err := clientEnd(); err != nil {
				t.Error("the client:", err)
			}
		})
	}
}
