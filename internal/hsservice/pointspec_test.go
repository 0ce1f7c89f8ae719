package hsservice

import (
	"bytes"
	"context"
	"encoding/base64"
	"slices"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

// specs tells for what circuits are asked.
type specs struct {
	nowhere
	asked chan path.Spec
}

func (n specs) Build(_ context.Context, spec path.Spec) (*circuit.Circuit, uint64, error) {
	n.asked <- spec
	return nil, 0, fault.New(fault.Network, "nothing can be built")
}

// TestPointSpec: introduction points are chosen by path among the relays that can be one, and
// as the end of a circuit: so they are never relays that are only allowed as middles.
func TestPointSpec(t *testing.T) {
	n := specs{asked: make(chan path.Spec, 100)}
	s := hostedOn(t, n)
	s.mu.Lock()
	s.descs = []*descriptor{new(descriptor)}
	s.tendPointsLocked(time.Now())
	s.mu.Unlock()
	for range DefaultPoints {
		spec := <-n.asked
		if len(spec.NeedExit) != 1 || spec.NeedExit[0].Name != path.Introduction.Name || spec.Hops != pointHops || !spec.Stable || spec.Last != nil || len(spec.Dests) > 0 {
			t.Errorf("%+v", spec)
		}
	}
}

// TestMiddleOnlyPoint: an introduction point whose relay is only allowed as a middle by now is
// replaced.
func TestMiddleOnlyPoint(t *testing.T) {
	n, err := dirgen.New(dirgen.Options{Relays: 30, Authorities: 1})
	if err != nil {
		t.Fatal(err)
	}
	good, err := n.Directory()
	if err != nil {
		t.Fatal(err)
	}
	bad := good.Relay(3).RSA()
	doc := bytes.Replace(n.Consensus, []byte(" HSDir NoEd"), []byte(" HSDir MiddleOnly NoEd"), 1)
	i := bytes.Index(doc, []byte(" "+base64.RawStdEncoding.EncodeToString(bad[:])+" "))
	j := i + bytes.Index(doc[i:], []byte(" Running"))
	doc = slices.Concat(doc[:j], []byte(" MiddleOnly"), doc[j:])
	var l netdir.Loader
	d, _, err := l.Consensus(doc, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d, _, err = l.Microdescs(d, n.Microdescs, nil); err != nil {
		t.Fatal(err)
	}
	s, now := quiet(t), time.Now()
	defer down(s)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range []int{3, 4} {
		p := up(t, s, 0, now)
		p.target = d.Relay(at).Target()
	}
	if s.tendOutdatedLocked(good); s.points[0].old(now) || s.points[1].old(now) {
		t.Error("a good point is replaced")
	}
	if s.tendOutdatedLocked(d); !s.points[0].old(now) || s.points[1].old(now) {
		t.Errorf("to be replaced: the middle %v, another %v", s.points[0].old(now), s.points[1].old(now))
	}
}
