package circuit

import (
	"context"
	"slices"
	"sync"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
)

// reply is an answer for which a goroutine has waited: the body of a cell or of a
// message.
type reply struct {
	cmd  cell.Command      // of a cell; zero for a relay message
	msg  cell.RelayCommand // of a relay message
	body []byte
	err  error
}

// replies has the goroutine that waits for a message about the circuit (stream 0)
// from a hop. Only one may wait at a time.
type replies struct {
	mu    sync.Mutex // guards what follows
	ask   *exchange  // nil: nobody waits
	err   error
	takes map[cell.RelayCommand]func(cell.RelayMsg) error // see Handle
}

// exchange is what an Expectation waits for.
type exchange struct {
	want []cell.RelayCommand // empty: it has come
	c    chan reply
}

// Expectation is a wait for one message on stream 0.
type Expectation struct {
	h *Hop
	c chan reply
}

// Expect says for which messages on stream 0 the caller will wait. The caller
// must call it before it sends the request for them, and must end it with Wait or
// Cancel. Only one expectation is open on a hop at a time.
func (h *Hop) Expect(want ...cell.RelayCommand) (*Expectation, error) {
	r := &h.meta
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return nil, fault.New(fault.Closed, "circuit: closed: %w", r.err)
	}
	if r.ask != nil {
		return nil, fault.New(fault.Local, "circuit: another exchange with the hop is under way")
	}
	r.ask = &exchange{want, make(chan reply, 1)}
	return &Expectation{h, r.ask.c}, nil
}

// Wait returns the message that came. If ctx ends first, the expectation ends
// too; if the message comes later, it is a violation.
func (e *Expectation) Wait(ctx context.Context) (cell.RelayCommand, []byte, error) {
	defer e.Cancel()
	select {
	case r := <-e.c:
		return r.msg, r.body, r.err
	case <-ctx.Done():
		return 0, nil, fault.New(fault.Timeout, "no answer from hop %d: %w", e.h.index+1, context.Cause(ctx))
	}
}

// Cancel ends the expectation.
func (e *Expectation) Cancel() {
	r := &e.h.meta
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ask != nil && r.ask.c == e.c {
		r.ask = nil
	}
}

// waitsFor reports whether a goroutine waits for such a message.
func (r *replies) waitsFor(cmd cell.RelayCommand) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ask != nil && slices.Contains(r.ask.want, cmd)
}

// take gives m to the goroutine that waits for it; it reports whether there was
// one.
func (r *replies) take(m cell.RelayMsg) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ask == nil || !slices.Contains(r.ask.want, m.Cmd) {
		return false
	}
	r.ask.c <- reply{msg: m.Cmd, body: append([]byte(nil), m.Data...)}
	r.ask.want = nil // ask stays until Wait: the buffer takes no second answer
	return true
}

func (r *replies) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
	if r.ask != nil && r.ask.want != nil {
		r.ask.c <- reply{err: err}
		r.ask.want = nil
	}
}

// Handle has f take each message of one command on stream 0 that the hop sends,
// unless an Expectation wants it: for messages that come unasked, as INTRODUCE2
// does, or that change the hops, as RENDEZVOUS2 does. f runs on the channel's
// reader and must not block; the message's data is valid during the call only. An
// error is a violation of the protocol. Nil takes no more.
func (h *Hop) Handle(cmd cell.RelayCommand, f func(cell.RelayMsg) error) {
	r := &h.meta
	r.mu.Lock()
	defer r.mu.Unlock()
	if f == nil {
		delete(r.takes, cmd)
		return
	}
	if r.takes == nil {
		r.takes = map[cell.RelayCommand]func(cell.RelayMsg) error{}
	}
	r.takes[cmd] = f
}

// handler returns what takes messages of a command, or nil.
func (r *replies) handler(cmd cell.RelayCommand) func(cell.RelayMsg) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.takes[cmd]
}
