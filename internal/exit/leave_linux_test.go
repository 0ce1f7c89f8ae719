package exit

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
)

// deafPort returns a port of loopback that answers nobody: its queue is full.
func deafPort(t *testing.T) uint16 {
	t.Helper()
	socket := func() int {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		return fd
	}
	l := socket()
	at := &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
	if err := unix.Bind(l, at); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(l, 0); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(l)
	if err != nil {
		t.Fatal(err)
	}
	at.Port = name.(*unix.SockaddrInet4).Port
	for range 3 {
		if err := unix.Connect(socket(), at); err != nil && err != unix.EINPROGRESS {
			t.Fatal(err)
		}
	}
	return uint16(at.Port)
}

// opening counts the connections to a port of loopback that wait for an answer (SYN_SENT).
func opening(t *testing.T, port uint16) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(text), fmt.Sprintf(" 0100007F:%04X 02 ", port))
}

func await(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("in vain waited until ", what)
		}
	}
}

// TestWorkEndsWithItsAsker: what an exit does for a stream ends when the client goes, by each
// way that it has: nothing of it stays. A new entry point is a row.
func TestWorkEndsWithItsAsker(t *testing.T) {
	begin := func(host string) func(h *circuit.Hop, id, port uint16) error {
		return func(h *circuit.Hop, id, port uint16) error {
			return h.Send(cell.RelayBegin, id, fmt.Appendf(nil, "%s:%d\x00\x00\x00\x00\x00", host, port))
		}
	}
	entries := map[string]struct {
		begin func(h *circuit.Hop, id, port uint16) error
		asks  bool // a name server
	}{
		"BEGIN":           {begin("127.0.0.1"), false},
		"BEGIN of a name": {begin("slow.test"), true},
		"RESOLVE": {func(h *circuit.Hop, id, _ uint16) error {
			return h.Send(cell.RelayResolve, id, []byte("slow.test\x00"))
		}, true},
	}
	end := cell.End{Reason: cell.EndMisc}
	ways := map[string]func(c *circuit.Circuit, id uint16) error{
		"END":      func(c *circuit.Circuit, id uint16) error { return c.Last().Send(cell.RelayEnd, id, end.Append(nil)) },
		"DESTROY":  func(c *circuit.Circuit, _ uint16) error { c.Close(cell.DestroyNone, nil); return nil },
		"the link": func(c *circuit.Circuit, _ uint16) error { c.Channel().Close(errors.New("the link ends")); return nil },
	}
	for name, entry := range entries {
		for way, leave := range ways {
			t.Run(name+" "+way, func(t *testing.T) {
				asked, gate := make(chan struct{}, 8), make(chan struct{})
				cfg := accept(t, "accept *:*")
				cfg.ConnectTimeout = time.Hour
				cfg.Nameservers = []netip.AddrPort{serveDNS(t, func(dns.ResponseWriter, *dns.Msg) {
					asked <- struct{}{}
					<-gate
				})}
				t.Cleanup(func() { close(gate) })
				e, c := setup(t, cfg, nil)
				e.SetLookups(func(_ string, _, _, most int32) int32 { return most }) // no lookup ends by itself
				port := deafPort(t)
				others := opening(t, port)
				var id uint16
				if err := c.Last().OpenStream(func(n uint16) circuit.StreamReceiver { id = n; return make(answers, 2) }); err != nil {
					t.Fatal(err)
				}
				if err := entry.begin(c.Last(), id, port); err != nil {
					t.Fatal(err)
				}
				if entry.asks {
					<-asked
				} else {
					await(t, "the exit connects", func() bool { return opening(t, port) > others })
				}
				if err := leave(c, id); err != nil {
					t.Fatal(err)
				}
				await(t, "its place is free", func() bool { return e.conns.Load() == 0 })
				await(t, "nothing is being opened", func() bool { return opening(t, port) <= others })
				e.mu.Lock()
				defer e.mu.Unlock()
				if e.asked != 0 {
					t.Errorf("%d lookups stay", e.asked)
				}
			})
		}
	}
}
