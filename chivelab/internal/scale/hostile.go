package scale

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/linkspec"
)

// A hostile asker does one thing for as long as ctx lasts, and counts it. Its errors are what a node does against it, and nobody's
// concern.
type attacker func(ctx context.Context, to peer, i int, did *atomic.Int64)

// hostile starts as many hostile askers as the plan says for a number of honest ones, of each kind by turns, and at least one of each.
// It returns when each kind is at work. They end when end is called, which waits for them, and adds a line that says how much they did.
func (p *Plan) hostile(ctx context.Context, to peer, honest int, f *figures, kinds ...attacker) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	did := make([]atomic.Int64, len(kinds))
	for i := range max(len(kinds), honest*p.Hostile/100) {
		kind := i % len(kinds)
		wg.Go(func() { kinds[kind](ctx, to, i, &did[kind]) })
	}
	for kind := range did {
		for until := time.Now().Add(setupTime); did[kind].Load() == 0 && time.Now().Before(until) && pause(ctx, pollEvery) == nil; {
		}
	}
	return sync.OnceFunc(func() {
		cancel()
		wg.Wait()
		all := int64(0)
		for kind := range did {
			n := did[kind].Load()
			if all += n; n == 0 {
				f.wrong = append(f.wrong, fmt.Sprintf("%s: the hostile askers of kind %d did nothing", f.name, kind))
			}
		}
		f.add(besideHostile+"what these asked for", float64(all))
	})
}

// badSource is the address of the i-th hostile asker, which nobody honest has.
func badSource(i int) *net.TCPAddr {
	return &net.TCPAddr{IP: net.IPv4(127, 200, byte(i>>8), byte(i))}
}

// mute is a connection whose owner can stop reading for ever.
type mute struct {
	net.Conn
	shut, closed chan struct{}
	once         sync.Once
}

func (m *mute) Read(b []byte) (int, error) {
	select {
	case <-m.shut:
		<-m.closed
		return 0, net.ErrClosed
	default:
		return m.Conn.Read(b)
	}
}

func (m *mute) Close() error {
	m.once.Do(func() { close(m.closed) })
	return m.Conn.Close()
}

// badLink opens a link of a hostile asker, which ends with ctx.
func badLink(ctx context.Context, to peer, i int) (*channel.Channel, *mute, error) {
	d := net.Dialer{LocalAddr: badSource(i), Timeout: setupTime}
	conn, err := d.DialContext(ctx, "tcp", to.or.String())
	if err != nil {
		return nil, nil, fault.Wrap(fault.Network, err)
	}
	m := &mute{Conn: conn, shut: make(chan struct{}), closed: make(chan struct{})}
	l := newLoad(to)
	setup, cancel := context.WithTimeout(ctx, setupTime)
	defer cancel()
	up, err := channel.Connect(setup, m, to.id, to.or, &channel.LinkConfig{Log: l.env.Log})
	if err != nil {
		return nil, nil, err
	}
	return channel.Start(up, &channel.Config{Log: l.env.Log, Now: time.Now}), m, nil
}

// again repeats what a node has ended.
func again(ctx context.Context, f func()) {
	for ctx.Err() == nil {
		f()
		if pause(ctx, 200*time.Millisecond) != nil {
			return
		}
	}
}

// unread asks for the consensus on many streams of one link, and reads none of it.
func unread(ctx context.Context, to peer, i int, did *atomic.Int64) {
	again(ctx, func() {
		ch, m, err := badLink(ctx, to, i)
		if err != nil {
			return
		}
		defer func() { ch.Close(errOver); <-ch.Done() }()
		l := newLoad(to)
		c, err := l.through(ctx, ch, []linkspec.Target{to.target()})
		if err != nil {
			return
		}
		close(m.shut)
		for id := uint16(1); id <= perCircuit; id++ {
			if c.Last().Send(cell.RelayBeginDir, id, nil) != nil ||
				c.Last().Send(cell.RelayData, id, []byte("GET "+consensusPath+" HTTP/1.0\r\n\r\n")) != nil {
				return
			}
			did.Add(1)
		}
		select {
		case <-ch.Done():
		case <-ctx.Done():
		}
	})
}

// endlessEvery is how often an asker of endless circuits makes the next one.
const endlessEvery = 2 * time.Millisecond

// endless builds circuit after circuit on one link, and closes none.
func endless(ctx context.Context, to peer, i int, did *atomic.Int64) {
	again(ctx, func() {
		ch, _, err := badLink(ctx, to, i)
		if err != nil {
			return
		}
		defer func() { ch.Close(errOver); <-ch.Done() }()
		l := newLoad(to)
		for ch.Err() == nil && pause(ctx, endlessEvery) == nil {
			one, cancel := context.WithTimeout(ctx, setupTime)
			_, err := circuit.Create(one, l.env, ch, to.target(), circuit.HopOptions{Handshake: handshake.Fast})
			cancel()
			did.Add(1)
			if err != nil && pause(ctx, 50*time.Millisecond) != nil {
				return
			}
		}
	})
}
