package relay

import (
	"context"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/dirclient"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/stream"
)

// beginDir opens a directory stream over a new circuit of one hop, which ends
// with the stream.
func (r *Relay) beginDir(ctx context.Context, t linkspec.Target) (io.ReadWriteCloser, error) {
	ch, err := r.channels.Get(ctx, t)
	if err != nil {
		return nil, err
	}
	circ, err := circuit.Create(ctx, r.env, ch, t, circuit.HopOptions{Handshake: handshake.Fast, Flow: r.flow.Load()})
	if err != nil {
		return nil, err
	}
	s, err := stream.BeginDir(circ.Last())
	if err != nil {
		circ.Close(cell.DestroyNone, err)
		return nil, err
	}
	return &dirStream{Stream: s, circ: circ}, nil
}

// dirStream is a directory stream that closes its circuit too.
type dirStream struct {
	*stream.Stream
	circ *circuit.Circuit
}

func (s *dirStream) Close() error {
	err := s.Stream.Close()
	s.circ.Close(cell.DestroyNone, fault.New(fault.Closed, "the directory request is over"))
	return err
}

// caches opens directory streams for the relay's own view of its network. It
// implements dirclient.Dialer.
type caches struct {
	r *Relay

	mu     sync.Mutex // guards what follows
	failed map[ident.RSAID]time.Time
}

// cacheRetry is how long a cache that failed is tried last.
const cacheRetry = 2 * time.Minute

// OpenDir asks the directory caches in the consensus or, without a consensus, the
// authorities and fallbacks. A relay may ask these, because there are few relays.
func (k *caches) OpenDir(ctx context.Context, q dirclient.Query) (dirclient.Stream, error) {
	t, err := k.choose(q)
	if err != nil {
		return dirclient.Stream{}, err
	}
	s, err := k.r.beginDir(ctx, t)
	return dirclient.Stream{ReadWriteCloser: s, Cache: t.RelayID, Addrs: t.Addrs}, err
}

func (k *caches) choose(q dirclient.Query) (linkspec.Target, error) {
	var list []linkspec.Target
	add := func(rsa ident.RSAID, t linkspec.Target) {
		if len(t.Addrs) > 0 && !rsa.Equal(k.r.keys.ID.RSA) {
			list = append(list, t)
		}
	}
	// A directory cache itself gets documents from the authorities.
	if d := q.Directory; d != nil && q.Attempt < 2 && k.r.cache == nil {
		for relay := range d.All() {
			if relay.Has(netdir.FlagV2Dir | netdir.FlagRunning) {
				add(relay.RSA(), relay.Target())
			}
		}
	}
	if len(list) == 0 {
		for _, a := range k.r.cfg.Network.Authorities {
			add(a.RSA, linkspec.Target{RelayID: ident.RelayID{RSA: a.RSA, Ed: a.Ed}, Addrs: a.ORPorts})
		}
		// A fallback may have an older consensus than the authorities.
		if q.Purpose != dirclient.Consensus || q.Directory == nil || q.Attempt >= 2 || len(list) == 0 {
			for _, f := range k.r.cfg.Network.Fallbacks {
				add(f.RSA, linkspec.Target{RelayID: ident.RelayID{RSA: f.RSA, Ed: f.Ed}, Addrs: f.ORPorts})
			}
		}
	}
	if len(list) == 0 {
		return linkspec.Target{}, fault.New(fault.Directory, "no directory cache is known")
	}
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	best, bestScore := list[0], -1
	for _, t := range list {
		score := 0
		if now.Sub(k.failed[t.RSA]) > cacheRetry {
			score++
		}
		if !slices.ContainsFunc(q.Avoid, func(id ident.RelayID) bool { return id.RSA == t.RSA }) {
			score += 2
		}
		if score > bestScore {
			best, bestScore = t, score
		}
	}
	return best, nil
}

// ReportDir implements dirclient.Dialer.
func (k *caches) ReportDir(cache ident.RelayID, _ dirclient.Purpose, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err == nil {
		delete(k.failed, cache.RSA)
		return
	}
	k.failed[cache.RSA] = time.Now()
	if len(k.failed) > 1000 {
		clear(k.failed)
	}
}
