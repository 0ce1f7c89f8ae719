package client

import (
	"testing"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/path"
)

// TestComesFrom: the relay before the last is the one that a circuit must not be
// extended to; the guard may come again.
func TestComesFrom(t *testing.T) {
	var p path.Path
	for i := range byte(3) {
		p.Hops = append(p.Hops, path.Hop{Target: linkspec.Target{RelayID: ident.RelayID{RSA: ident.RSAID{i + 1}}}})
	}
	for id, want := range map[byte]bool{1: false, 2: true, 3: false, 4: false} {
		if got := comesFrom(&p, ident.RSAID{id}); got != want {
			t.Errorf("relay %d: %v", id, got)
		}
	}
	p.Hops = p.Hops[:1]
	if comesFrom(&p, ident.RSAID{1}) {
		t.Error("a circuit of one hop comes from nowhere")
	}
}
