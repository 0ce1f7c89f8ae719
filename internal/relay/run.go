package relay

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/dirclient"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/panics"
)

// Run serves until ctx is done, and then drains: it takes no new connections and refuses new
// circuits, and open ones have ShutdownWait to end.
func (r *Relay) Run(ctx context.Context) error {
	// The goroutines that serve circuits continue after ctx until the drain ends.
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	rest := rest(serving)
	ctx, refused := context.WithCancel(ctx)
	defer refused()
	var wg, accepting sync.WaitGroup
	accepting.Go(panics.Keep(r.log, rest, func() { r.attend(serving) }))
	if r.transports != nil {
		accepting.Go(panics.Contain(r.log, func(error) { r.transports.close() }, func() { r.whileAwake(serving, r.transports.run) }))
	}
	var dirErr error
	wg.Go(panics.Keep(r.log, rest, func() {
		r.whileAwake(serving, func(ctx context.Context) {
			if dirErr = r.dirs.Run(ctx); dirErr != nil { // the network requires what this version lacks
				r.log.Error("the relay ends", "err", dirErr)
				refused()
			}
		})
	}))
	if r.cache != nil && !r.cfg.Bridge { // a bridge's clients use microdescriptors
		m := dirclient.Mirror{Client: r.dirs, Store: &mirror{r.cache, map[ident.RSAID]time.Time{}}, ExtraInfo: r.cfg.ExtraInfo}
		wg.Go(panics.Keep(r.log, rest, func() { r.whileAwake(serving, m.Run) }))
	}
	wg.Go(panics.Keep(r.log, rest, func() { r.follow(serving) }))
	wg.Go(panics.Keep(r.log, rest, func() { r.housekeep(serving) }))
	wg.Go(panics.Keep(r.log, rest, func() {
		r.memory.Run(serving, time.Tick(time.Second), account.Seldom(time.Now, evictionLog, r.evicted))
	}))
	wg.Go(panics.Keep(r.log, rest, func() { r.announce(ctx) }))
	first, _ := first4(r.Addrs())
	r.log.Info("the relay is open", "nickname", r.cfg.Nickname, "port", first.Port(), "exit", r.cfg.Exit != nil)
	r.warnBare()
	<-ctx.Done()
	// First, so that a connection that comes from now on is refused, or waits for the next program if
	// the port is handed over, and none is taken in vain. Transports go on with the circuits.
	r.closePorts()
	r.drain()
	end()
	r.closeListeners()
	accepting.Wait()
	wg.Wait()
	r.exit.Close()
	r.channels.Close()
	r.server.Close()
	if r.cache != nil {
		r.cache.onions.Close()
	}
	r.acct.save(time.Now())
	return errors.Join(dirErr, r.bandwidth.save(r.cfg.DataDir, time.Now()))
}

// Cut makes Run end without a wait for open circuits when its context is done.
func (r *Relay) Cut() { r.cutOnce.Do(func() { close(r.cut) }) }

// drain waits until the circuits have ended, for a limited time.
func (r *Relay) drain() {
	r.draining.Store(true)
	r.exit.Drain()
	wait := r.live.Load().cfg.ShutdownWait
	if wait == 0 {
		wait = 30 * time.Second
	}
	open := r.stats.Circuit.Circuits.Load()
	if wait < 0 || open == 0 {
		return
	}
	r.log.Info("shutting down: no new circuits are taken", "open", open, "for", wait)
	end := time.NewTimer(wait)
	defer end.Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for r.stats.Circuit.Circuits.Load() > 0 {
		select {
		case <-end.C:
			return
		case <-r.cut:
			return
		case <-tick.C:
		}
	}
}

// announce publishes the descriptor once the relay knows that it is reachable.
func (r *Relay) announce(ctx context.Context) {
	if !r.acct.await(ctx, awake) {
		return
	}
	if !r.cfg.AssumeReachable {
		if !r.testReachability(ctx) {
			return
		}
	}
	r.reachable.Store(true)
	r.publisher.run(ctx)
}

// warnBare says what a bridge without a transport cannot hide: Go's TLS answers otherwise than OpenSSL's, whatever
// this program does.
func (r *Relay) warnBare() {
	if r.cfg.Bridge && r.transports == nil {
		r.log.Warn("the bridge has no transport: whoever connects to its port once, or watches it, can tell that it is a bridge of Chive's")
	}
}
