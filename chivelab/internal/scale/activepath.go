package scale

import (
	"context"
	"crypto/rand"
	"sync"
	"sync/atomic"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/layer"
	"github.com/chivenet/chive/internal/linkspec"
)

// path is a circuit from a client through the relay under load to the far relay. Both ends are in this process. Its cells
// mean nothing: the relay adds or removes a layer and passes them on, and they are counted where they come out.
type path struct {
	ends   [2]pathEnd
	answer chan []byte   // CREATED_FAST
	open   chan struct{} // closed when the far relay's answer has come to the client
	opened sync.Once
	lost   atomic.Bool // one end was destroyed
}

// The ends.
const (
	nearEnd = 0 // the client's
	farEnd  = 1
)

// round is how many cells one SENDME of congestion control acknowledges (proposal 324, "cc_sendme_inc").
const round = 31

// pathEnd is one end of a path.
type pathEnd struct {
	path *path
	far  bool
	link *cellLink
	id   uint32       // of the circuit on its link
	got  atomic.Int64 // cells that have come
	// arrived, if not nil, hears of cells that come: for small requests.
	arrived atomic.Pointer[func(e *pathEnd, cells int)]
	flowing atomic.Bool // cells that come make the other end send as many
	due     int         // cells that came since; owned by the link's reader

	// guarded by the link's mu
	owed  int      // cells that it has to send
	waits bool     // it is among those that owe some
	next  *pathEnd // of these
}

func newPath() *path {
	p := &path{answer: make(chan []byte, 1), open: make(chan struct{})}
	p.ends[nearEnd].path = p
	p.ends[farEnd] = pathEnd{path: p, far: true}
	return p
}

// buildPath makes a circuit on a client's link.
func buildPath(ctx context.Context, l *cellLink, near linkspec.Target, far *farRelay) (*path, error) {
	p := newPath()
	l.open(&p.ends[nearEnd])
	id := p.ends[nearEnd].id
	hs, skin, err := handshake.Fast.Start(rand.Reader, &near, nil)
	if err != nil {
		return nil, err
	}
	defer hs.Wipe()
	l.sendControl(id, cell.CmdCreateFast, skin)
	var answer []byte
	select {
	case answer = <-p.answer:
	case <-ctx.Done():
		return nil, fault.New(fault.Timeout, "the relay does not answer CREATE_FAST: %w", context.Cause(ctx))
	}
	_, ks, err := hs.Finish(answer[:cell.CreatedFastLen])
	if err != nil {
		return nil, err
	}
	keys, err := layer.NewTor1Client(ks)
	if err != nil {
		return nil, err
	}
	m := cell.Extend2{Specs: linkspec.Append(nil, far.target.Specs()), Type: cell.HandshakeNtor, Data: far.expect(p)}
	body := m.Append(nil)
	payload := new([cell.PayloadLen]byte)
	if err := keys.Format.PutHeader(payload, cell.RelayExtend2, 0, len(body)); err != nil {
		return nil, err
	}
	copy(payload[keys.Format.DataOffset(cell.RelayExtend2):], body)
	keys.Forward.Originate(cell.CmdRelayEarly, payload)
	l.sendControl(id, cell.CmdRelayEarly, payload[:])
	select {
	case <-p.open:
		return p, nil
	case <-ctx.Done():
		return nil, fault.New(fault.Timeout, "the relay does not extend the circuit: %w", context.Cause(ctx))
	}
}

// other returns the other end.
func (e *pathEnd) other() *pathEnd {
	if e.far {
		return &e.path.ends[nearEnd]
	}
	return &e.path.ends[farEnd]
}

// came counts cells that have come. The link's reader calls it.
func (e *pathEnd) came(n int) {
	if !e.far {
		first := false
		e.path.opened.Do(func() { first = true; close(e.path.open) })
		if first {
			return
		}
	}
	e.got.Add(int64(n))
	if f := e.arrived.Load(); f != nil {
		(*f)(e, n)
	}
	if !e.flowing.Load() {
		return
	}
	if e.due += n; e.due >= round {
		e.other().send(e.due / round * round)
		e.due %= round
	}
}

// send sends n cells.
func (e *pathEnd) send(n int) { e.link.owe(e, n) }
