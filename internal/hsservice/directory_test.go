package hsservice

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

// inDirectory is a client that has a directory, and excludes some of its relays.
type inDirectory struct {
	nowhere
	d       *netdir.Directory
	exclude map[ident.RSAID]bool
}

func (n *inDirectory) Directory() (*netdir.Directory, <-chan struct{}) { return n.d, nil }
func (n *inDirectory) Refused(t *linkspec.Target) error {
	if n.exclude[t.RSA] {
		return fault.New(fault.Refused, "excluded")
	}
	return nil
}
func (n *inDirectory) ToDirectory(ctx context.Context, t linkspec.Target) (*circuit.Circuit, uint64, error) {
	return n.To(ctx, t, nil)
}

func (n *inDirectory) To(ctx context.Context, t linkspec.Target, _ []linkspec.Spec) (*circuit.Circuit, uint64, error) {
	if n.exclude[t.RSA] {
		n.calls <- t
	}
	return nil, 0, fault.New(fault.Network, "nothing can be built")
}

func someDirectory(t *testing.T) *netdir.Directory {
	t.Helper()
	n, err := dirgen.New(dirgen.Options{Relays: 30, Authorities: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Publish(time.Now()); err != nil {
		t.Fatal(err)
	}
	d, err := n.Directory()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestExcludedDirectories: directories that the user excludes are neither asked nor
// waited for.
func TestExcludedDirectories(t *testing.T) {
	d := someDirectory(t)
	synctest.Test(t, func(t *testing.T) {
		_, x := made(t)
		dirs := x.period.directories(d, x.keys.Blinded.Public())
		if len(dirs) < 4 {
			t.Fatalf("%d directories", len(dirs))
		}
		calls := make(chan linkspec.Target, 100)
		s := hostedOn(t, &inDirectory{nowhere{calls: calls}, d, map[ident.RSAID]bool{dirs[0].RSA(): true, dirs[2].RSA(): true}})
		allowed := s.allowed(dirs)
		if len(allowed) != len(dirs)-2 || slices.ContainsFunc(allowed, func(r netdir.Relay) bool { return r.RSA() == dirs[0].RSA() }) {
			t.Errorf("%d of %d", len(allowed), len(dirs))
		}
		s.mu.Lock()
		if err := s.makeLocked(x, points(t), [32]byte{1}, time.Now()); err != nil {
			t.Fatal(err)
		}
		x.left = dirs // as they were before the user excluded some
		s.publishLocked(d, x)
		s.mu.Unlock()
		synctest.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(calls) > 0 {
			t.Error("an excluded directory was asked")
		}
		if x.busy || len(x.left) != len(allowed) {
			t.Errorf("%d directories are waited for, not %d", len(x.left), len(allowed))
		}
	})
}

// TestIntroExts: a relay that does not know the extension never gets it.
func TestIntroExts(t *testing.T) {
	d := someDirectory(t)
	s := hostedOn(t, &inDirectory{d: d})
	limit := &cell.IntroDoS{RatePerSec: 7, BurstPerSec: 70}
	with, without := 0, 0
	for i := range d.Len() {
		r := d.Relay(i)
		target := r.Target()
		s.live.Store(&Live{})
		if exts := s.introExts(&target); exts != nil {
			t.Errorf("nobody asked for %v", exts)
		}
		s.live.Store(&Live{IntroLimit: limit})
		exts := s.introExts(&target)
		if knows := r.Protocols().Has("HSIntro", 5); knows != (len(exts) == 1) {
			t.Errorf("a relay that knows it: %v; extensions: %v", knows, exts)
		}
		if len(exts) == 0 {
			without++
			continue
		}
		with++
		if got, err := cell.ParseIntroDoS(exts[0].Body); err != nil || got != *limit || exts[0].Type != cell.ExtIntroDoS {
			t.Errorf("%+v %v", got, err)
		}
	}
	t.Logf("%d relays know it, %d do not", with, without)
	if stranger := (linkspec.Target{RelayID: ident.RelayID{RSA: ident.RSAID{9}}}); s.introExts(&stranger) != nil {
		t.Error("nobody knows what this relay knows")
	}
}
