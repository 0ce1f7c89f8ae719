package client

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/protover"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

// TestRequiredOfClients: a client ends by itself, with an error that helps, if the network
// requires a protocol of clients that it lacks. What a network requires of relays does not
// concern it.
func TestRequiredOfClients(t *testing.T) {
	for name, c := range map[string]struct {
		client, relay string
		refused       bool
	}{"of clients": {"Relay=2,63", "Relay=2", true}, "of relays": {"Relay=2", "Relay=2,63", false}, "what relays do": {"LinkAuth=3 HSIntro=5", "Relay=2", false}} {
		t.Run(name, func(t *testing.T) {
			n, err := dirgen.New(dirgen.Options{Relays: 5, ValidAfter: time.Now().Add(-time.Minute).UTC().Truncate(time.Second), Change: func(p *netdoc.Preamble) {
				p.RequiredClient, _ = protover.Parse(c.client)
				p.RequiredRelay, _ = protover.Parse(c.relay)
			}})
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, "directory"), 0o700); err != nil {
				t.Fatal(err)
			}
			for file, text := range map[string][]byte{"consensus-microdesc": n.Consensus, "certs": n.Certs} {
				if err := os.WriteFile(filepath.Join(dir, "directory", file), text, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			asked := make(chan struct{}, 100) // the client goes on, and asks for microdescriptors
			cl, err := New(Config{Network: n.Network, Dir: dir, Dial: func(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
				select {
				case asked <- struct{}{}:
				default:
				}
				return refuse(ctx, a)
			}})
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			select {
			case <-cl.Done():
				if err := cl.Err(); !c.refused || !fault.Is(err, fault.Refused) || !strings.Contains(err.Error(), `of clients`) || !strings.Contains(err.Error(), `lacks "Relay=63"`) {
					t.Errorf("%v", err)
				}
			case <-asked:
				if c.refused {
					t.Error("it goes on")
				}
			case <-time.After(30 * time.Second):
				t.Error("nothing happened")
			}
		})
	}
}
