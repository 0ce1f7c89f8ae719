package relay

import (
	"context"
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

// TestRequiredOfRelays: a relay and a bridge end by themselves, with an error that helps, if the
// network requires a protocol of relays that they lack.
func TestRequiredOfRelays(t *testing.T) {
	n, err := dirgen.New(dirgen.Options{Relays: 5, ValidAfter: time.Now().Add(-time.Minute).UTC().Truncate(time.Second), Change: func(p *netdoc.Preamble) {
		p.RequiredRelay, _ = protover.Parse("Relay=2,63")
	}})
	if err != nil {
		t.Fatal(err)
	}
	for name, bridge := range map[string]bool{"a relay": false, "a bridge": true} {
		t.Run(name, func(t *testing.T) {
			cfg := bridgeConfig(t)
			cfg.Bridge, cfg.Network, cfg.NoPublish, cfg.AssumeReachable = bridge, n.Network, true, true
			cfg.Network.Testing.AllowPrivateAddresses = true
			for file, text := range map[string][]byte{"consensus-microdesc": n.Consensus, "certs": n.Certs, "microdescs": n.Microdescs} {
				if err := os.WriteFile(filepath.Join(cfg.DataDir, file), text, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			r, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if err := r.Run(ctx); ctx.Err() != nil || !fault.Is(err, fault.Refused) || !strings.Contains(err.Error(), `lacks "Relay=63"`) {
				t.Errorf("%v, and it ended by itself: %v", err, ctx.Err() == nil)
			}
		})
	}
}

// TestProtocolsOfRelays: what relays without a directory advertise is a part of what the program supports.
func TestProtocolsOfRelays(t *testing.T) {
	all, err := protover.Parse(protover.All)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := protover.Parse(Protocols); err != nil || all.Missing(s) != "" {
		t.Errorf("%q: %v", Protocols, err)
	}
}
