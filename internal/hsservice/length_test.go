package hsservice

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
)

// TestLength: numbers that make descriptors too long are refused before anything is
// uploaded, with what would be possible, and that is possible.
func TestLength(t *testing.T) {
	long(t)
	for _, c := range []struct {
		points, clients int
		want            string
	}{
		{DefaultPoints, MaxClients, ""}, {10, 192, ""}, {16, 192, "at most"}, {MaxPoints, MaxClients, "at most"},
	} {
		err := CheckLength(c.points, c.clients)
		if c.want == "" && err != nil || c.want != "" && (!fault.Is(err, fault.Config) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%d points, %d clients: %v", c.points, c.clients, err)
		}
	}
	// Each of the two numbers that the error names is the last that is possible.
	var less, fewer int
	_, tail, _ := strings.Cut(CheckLength(16, 192).Error(), "; ")
	if n, err := fmt.Sscanf(tail, "with as many clients at most %d introduction points are possible, with as many introduction points at most %d clients", &less, &fewer); n != 2 {
		t.Fatal(tail, err)
	}
	if CheckLength(less, 192) != nil || CheckLength(less+1, 192) == nil || CheckLength(16, fewer) != nil || CheckLength(16, fewer+1) == nil {
		t.Errorf("%d points, %d clients", less, fewer)
	}
}

// TestLongDescriptor: beside new points, old ones have a place in the descriptor only
// as long as it is not too long.
func TestLongDescriptor(t *testing.T) {
	long(t)
	s, x := made(t)
	x.keys.Clients = make([]ident.X25519Key, 192)
	for i := range x.keys.Clients {
		x.keys.Clients[i] = someClient(t)
	}
	s.live.Store(&Live{IntroductionPoints: 10})
	all := points(t)
	for len(all) < 25 {
		all = append(all, all[0])
	}
	if err := s.makeLocked(x, all, [32]byte{1}, time.Now()); err != nil || len(x.doc.Text) > netdoc.MaxHSDescriptor {
		t.Errorf("%v", err)
	}
	for range 256 {
		x.keys.Clients = append(x.keys.Clients, x.keys.Clients[0])
	}
	if err := s.makeLocked(x, all, [32]byte{1}, time.Now()); err == nil || !strings.Contains(err.Error(), "50000 bytes that directories take") {
		t.Errorf("%v", err)
	}
}
