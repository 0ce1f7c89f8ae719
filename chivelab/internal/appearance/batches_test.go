package appearance

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chivenet/chive/chivelab/internal/madenet"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/lab/child"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/internal/lab/ports"
	"github.com/chivenet/chive/internal/relay"
)

// manyRelays is more than three requests may ask for.
const manyRelays = 1700

// TestBatches: clients of a large network divide what they ask of a bridge as C tor's do. A small one does not show it.
func TestBatches(t *testing.T) {
	if testing.Short() {
		t.Skip("it makes the keys of 1,700 relays")
	}
	tor, _, err := ctor.Find("")
	labtest.Need(t, "C tor", err)
	n, err := madenet.New(t.Context(), madenet.Options{Relays: manyRelays, Authorities: 3, Hours: 1, Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	theirs := batchesOf(t, n, []string{tor}, "ExtendAllowPrivateAddresses 1", "GeoIPFile /dev/null", "GeoIPv6File /dev/null")
	if ours := batchesOf(t, n, []string{buildChive(t), "tor"}, "TestingTorNetwork 1"); !slices.Equal(ours, theirs) {
		t.Errorf("Chive asks for %v microdescriptors, and C tor for %v", ours, theirs)
	}
}

// heardRequests has what streams carry to a relay.
type heardRequests struct {
	more  chan struct{} // has a token when something came
	mu    sync.Mutex    // guards texts
	texts map[heardStream]string
}

type heardStream struct {
	circuit *channel.CircuitEnd
	stream  uint16
}

func (r *heardRequests) hear(home *channel.CircuitEnd, m cell.RelayMsg) {
	if m.Cmd != cell.RelayData {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.texts[heardStream{home, m.Stream}] += string(m.Data)
	select {
	case r.more <- struct{}{}:
	default:
	}
}

// batches returns how many microdescriptors each whole request is for, the most first.
func (r *heardRequests) batches() (out []int, sum int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, text := range r.texts {
		if path, whole := strings.CutPrefix(text, "GET /tor/micro/d/"); whole && strings.Contains(path, "\r\n\r\n") {
			path, _, _ = strings.Cut(path, " ")
			out = append(out, 1+strings.Count(path, "-"))
			sum += out[len(out)-1]
		}
	}
	slices.Sort(out)
	slices.Reverse(out)
	return out, sum
}

// batchesOf runs a client whose bridge has the network's directory, until it has asked for all microdescriptors.
func batchesOf(t *testing.T, n *madenet.Net, command []string, lines ...string) []int {
	t.Helper()
	heard := &heardRequests{texts: map[heardStream]string{}, more: make(chan struct{}, 1)}
	dir := t.TempDir()
	if err := n.WriteChive(dir); err != nil {
		t.Fatal(err)
	}
	var leases ports.Leases
	defer leases.Release()
	loopback := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	port, err := leases.Take(loopback)
	if err != nil {
		t.Fatal(err)
	}
	at := netip.AddrPortFrom(loopback, port)
	r, err := relay.New(relay.Config{
		Network: n.Network(), DataDir: dir, Log: slog.New(slog.DiscardHandler), Nickname: "large", Bridge: true,
		Listen: []netip.AddrPort{at}, Advertise: []netip.AddrPort{at}, AssumeReachable: true, ShutdownWait: -1, Rate: 1 << 30, Burst: 1 << 30,
		Tap: &relay.Tap{Protocols: ctorProtocols, Heard: heard.hear},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() {
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	rc := filepath.Join(t.TempDir(), "torrc")
	lines = append(append(lines, n.Torrc()...), "DataDirectory "+filepath.Dir(rc), "SocksPort 0", "Log notice stdout", "UseBridges 1", fmt.Sprintf("Bridge %v %v", at, r.Target().RSA))
	if err := os.WriteFile(rc, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, _, err := child.Run(ctx, nil, exec.Command(command[0], append(command[1:], "--defaults-torrc", "/nonexistent", "-f", rc)...), func(string) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	for {
		out, sum := heard.batches()
		if sum >= manyRelays {
			return out
		}
		select {
		case <-heard.more:
		case <-ctx.Done():
			t.Fatalf("%v: it has asked for %v", command, out)
		}
	}
}
