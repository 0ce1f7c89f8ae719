package scale

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/chivelab/internal/madenet"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/proc"
	"github.com/chivenet/chive/internal/netdoc"
)

// perRequest is how many microdescriptors C tor's clients ask for at a time.
const perRequest = 90

const consensusPath = "/tor/status-vote/current/consensus-microdesc"

// caches measures a directory cache of each program, with a made-up network of the plan's size.
func caches(ctx context.Context, p *Plan, n *madenet.Net) (Part, error) {
	n.Renew(time.Now())
	_, names := n.Microdescs()
	s := &cacheSite{plan: p, made: n}
	defer s.close()
	var all []*figures
	for _, start := range []func(context.Context) (peer, error){s.startTor, s.startChive} {
		to, err := start(ctx)
		if err == nil {
			var f *figures
			if f, err = measureCache(ctx, p, to, n, names); err == nil {
				all = append(all, f)
			}
		}
		if err != nil {
			return Part{}, fault.New(fault.KindOf(err), "cache: %s: %w", to.name, err)
		}
	}
	return join(fmt.Sprintf("a cache: %d relays, %d hours, %d bootstraps", p.Relays, p.Hours, p.Bootstraps), all...), nil
}

// measureCache loads one cache.
func measureCache(ctx context.Context, p *Plan, to peer, n *madenet.Net, names []string) (*figures, error) {
	f := &figures{name: to.name}
	p.Progress(fmt.Sprintf("%s: waiting until the cache is at rest", to.name))
	if err := serves(ctx, to, names); err != nil {
		return nil, err
	}
	if err := quiet(ctx, to); err != nil {
		return nil, err
	}
	base, err := rest(ctx, to, p.Settle)
	if err != nil {
		return nil, err
	}
	f.add("RSS before, MB", float64(base.RSS)/1e6)
	f.add("idle, ms/s", base.CPU)
	if err := measureBootstraps(ctx, p, to, names, f, ""); err != nil {
		return nil, err
	}
	if err := measureDiffs(ctx, p, to, n, f); err != nil {
		return nil, err
	}
	last, err := rest(ctx, to, p.Settle)
	if err != nil {
		return nil, err
	}
	f.add("RSS after, MB", float64(last.RSS)/1e6)
	f.add("the most, MB", float64(last.Peak)/1e6)
	if p.Hostile == 0 {
		return f, nil
	}
	end := p.hostile(ctx, to, p.Bootstraps, f, unread, endless)
	defer end()
	return f, measureBootstraps(ctx, p, to, names, f, besideHostile)
}

// besideHostile marks what is measured while hostile askers do their worst.
const besideHostile = "beside hostile askers: "

// measureBootstraps serves bootstraps. Its lines begin with a prefix.
func measureBootstraps(ctx context.Context, p *Plan, to peer, names []string, f *figures, prefix string) error {
	p.Progress(fmt.Sprintf("%s: %s%d bootstraps", to.name, prefix, p.Bootstraps))
	before, err := proc.Of(to.pid)
	if err != nil {
		return err
	}
	var sent, consensus, done, relays atomic.Int64
	err = each(ctx, p.Bootstraps, func(ctx context.Context, i int) error {
		b, err := bootstrap(ctx, to, i, names)
		if err != nil {
			p.Progress(fmt.Sprintf("%s: a bootstrap failed: %v", to.name, err))
			return nil
		}
		done.Add(1)
		sent.Add(int64(b.sent))
		consensus.Store(int64(b.consensus))
		relays.Add(int64(b.relays))
		return nil
	})
	if err != nil {
		return err
	}
	after, err := proc.Of(to.pid)
	if err != nil {
		return err
	}
	one := max(1, int(done.Load()))
	f.add(prefix+"a bootstrap, ms of a processor", float64(after.CPU-before.CPU)/1e6/float64(one))
	f.add(prefix+"a bootstrap, kB", float64(sent.Load())/1e3/float64(one))
	f.add(prefix+"the consensus, kB of zstd", float64(consensus.Load())/1e3)
	f.must(prefix+"bootstraps served", int(done.Load()), p.Bootstraps)
	f.must(prefix+"microdescriptors served", int(relays.Load()), p.Bootstraps*p.Relays)
	return nil
}

// measureDiffs asks for the diff from each earlier consensus.
func measureDiffs(ctx context.Context, p *Plan, to peer, n *madenet.Net, f *figures) error {
	p.Progress(fmt.Sprintf("%s: %d diffs", to.name, p.Hours))
	a, err := newAsker(ctx, to, source(0))
	if err != nil {
		return err
	}
	defer a.close()
	diffs := 0
	var took time.Duration
	for ago := 1; ago <= p.Hours; ago++ {
		text, err := n.Consensus(netdoc.FlavorMicrodesc, ago)
		if err != nil {
			return err
		}
		sum, err := madenet.SHA3Signed(text)
		if err != nil {
			return err
		}
		before, err := proc.Of(to.pid)
		if err != nil {
			return err
		}
		got, err := a.get(ctx, consensusPath, "X-Or-Diff-From-Consensus: "+sum+"\r\n")
		if err != nil {
			return err
		}
		after, err := proc.Of(to.pid)
		if err != nil {
			return err
		}
		took += after.CPU - before.CPU
		if text, err = got.plain(); err != nil {
			return err
		}
		if bytes.HasPrefix(text, []byte("network-status-diff-version 1\n")) {
			diffs++
		}
	}
	f.add("a diff, ms of a processor", float64(took)/1e6/float64(max(1, p.Hours)))
	f.must("diffs served", diffs, p.Hours)
	return nil
}

// boot is what a bootstrap brought.
type boot struct{ sent, consensus, relays int }

// bootstrap fetches what a new client does.
func bootstrap(ctx context.Context, to peer, i int, names []string) (b boot, err error) {
	a, err := newAsker(ctx, to, source(i*perAddress))
	if err != nil {
		return b, err
	}
	defer a.close()
	got, err := a.get(ctx, consensusPath, "")
	if err == nil && got.status != 200 {
		err = fault.New(fault.Directory, "consensus: status %d", got.status)
	}
	if err != nil {
		return b, err
	}
	b.sent, b.consensus = len(got.body), len(got.body)
	for batch := range slices.Chunk(names, perRequest) {
		got, err := a.get(ctx, "/tor/micro/d/"+strings.Join(batch, "-"), "")
		if err != nil {
			return b, err
		}
		text, err := got.plain()
		if err != nil {
			return b, err
		}
		b.sent += len(got.body)
		b.relays += bytes.Count(text, []byte("onion-key\n")) - bytes.Count(text, []byte("ntor-onion-key\n"))
	}
	return b, nil
}

// readTime is how long a cache may take to read its files.
const readTime = 5 * time.Minute

// serves waits until a cache has read its files.
func serves(ctx context.Context, to peer, names []string) error {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	for {
		b, err := bootstrap(ctx, to, 0, names)
		if err == nil && b.relays == len(names) {
			return nil
		}
		if werr := pause(ctx, 500*time.Millisecond); werr != nil {
			return fault.New(fault.Timeout, "it serves %d of %d microdescriptors: %w", b.relays, len(names), err)
		}
	}
}

// quiet waits until a node has done what it does at its start: C tor compresses and makes all diffs then.
func quiet(ctx context.Context, to peer) error {
	for still := 0; still < 3; {
		a, err := rest(ctx, to, time.Second)
		if err != nil {
			return err
		}
		if still++; a.CPU > 50 {
			still = 0
		}
	}
	return nil
}

// pause waits, or returns why it must not.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
