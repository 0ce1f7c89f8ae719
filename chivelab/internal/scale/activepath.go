package scale

import (
	"context"
	"crypto/rand"
	"sync"
	"sync/atomic"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
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

// pathEnd is a channel.Receiver. Its channel's reader owns what is not atomic.
type pathEnd struct {
	path *path
	far  bool
	circ *channel.CircuitEnd
	got  atomic.Int64 // cells that have come
	// arrived, if not nil, hears of cells that come, and is given them: for small requests.
	arrived atomic.Pointer[func(e *pathEnd, cells []byte)]
	flowing atomic.Bool // cells that come make the other end send as many
	due     int         // cells that came since
}

func newPath() *path {
	p := &path{answer: make(chan []byte, 1), open: make(chan struct{})}
	p.ends[nearEnd].path = p
	p.ends[farEnd] = pathEnd{path: p, far: true}
	return p
}

// buildPath makes a circuit on a client's link.
func buildPath(ctx context.Context, ch *channel.Channel, near linkspec.Target, far *farRelay) (*path, error) {
	p := newPath()
	c, err := ch.Open(&p.ends[nearEnd], nil)
	if err != nil {
		return nil, err
	}
	p.ends[nearEnd].circ = c
	hs, skin, err := handshake.Fast.Start(rand.Reader, &near, nil)
	if err != nil {
		return nil, err
	}
	defer hs.Wipe()
	if err := c.SendControl(cell.CmdCreateFast, skin); err != nil {
		return nil, err
	}
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
	var b [cell.Len]byte
	payload := cell.Payload(b[:])
	if err := keys.Format.PutHeader(payload, cell.RelayExtend2, 0, len(body)); err != nil {
		return nil, err
	}
	copy(payload[keys.Format.DataOffset(cell.RelayExtend2):], body)
	cell.PutHeader(b[:], 0, cell.CmdRelayEarly)
	keys.Forward.Originate(cell.CmdRelayEarly, payload)
	if err := c.Send(b[:]); err != nil {
		return nil, err
	}
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

// HandleCells implements channel.Receiver.
func (e *pathEnd) HandleCells(cells []byte) {
	n := len(cells) / cell.Len
	if !e.far {
		first := false
		e.path.opened.Do(func() { first = true; close(e.path.open) })
		if first {
			return
		}
	}
	e.got.Add(int64(n))
	if f := e.arrived.Load(); f != nil {
		(*f)(e, cells)
	}
	if !e.flowing.Load() {
		return
	}
	for e.due += n; e.due >= round; e.due -= round {
		e.other().emit(e.circ.Channel(), round)
	}
}

// emit sends cells. by's reader calls it, or it is nil.
func (e *pathEnd) emit(by *channel.Channel, n int) {
	var b [round * cell.Len]byte
	for n > 0 {
		k := min(n, round)
		for i := range k {
			cell.PutHeader(b[i*cell.Len:], 0, cell.CmdRelay)
		}
		e.send(by, b[:k*cell.Len])
		n -= k
	}
}

// send sends cells. by's reader calls it, or it is nil.
func (e *pathEnd) send(by *channel.Channel, cells []byte) {
	claimed, err := e.circ.Enqueue(cells)
	switch {
	case err != nil:
		e.path.lost.Store(true)
	case claimed && by != nil:
		by.FlushLater(e.circ.Channel())
	case claimed:
		e.circ.Channel().Flush()
	}
}

// HandleBatchEnd implements channel.Receiver.
func (*pathEnd) HandleBatchEnd() {}

// HandleControl implements channel.Receiver.
func (e *pathEnd) HandleControl(cmd cell.Command, body []byte) {
	if !e.far && cmd == cell.CmdCreatedFast {
		select {
		case e.path.answer <- append([]byte(nil), body...):
		default:
		}
	}
}

// HandleDestroy implements channel.Receiver.
func (e *pathEnd) HandleDestroy(cell.DestroyReason, error) { e.path.lost.Store(true) }

// HandleWritable implements channel.Receiver.
func (*pathEnd) HandleWritable() {}
