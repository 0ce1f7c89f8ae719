package circuit

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics"
)

// PaddingMachine is the type of a circuit padding machine, as PADDING_NEGOTIATE names
// it: two ends of a circuit that send DROP cells, so that the circuit looks like
// another kind of circuit to the guard (padding-spec, "Circuit-level padding"). The
// subprotocol Padding=2 stands for the two machines that hide the circuits of an onion
// service's client.
type PaddingMachine uint8

// The machines.
const (
	// PadIntroduction begins after INTRODUCE1: the relay sends some DROP cells, as if the
	// client had asked for a page, and then STOP.
	PadIntroduction PaddingMachine = 0
	// PadRendezvous begins after RENDEZVOUS_ESTABLISHED: each end sends one DROP cell, as
	// if a request had its answer.
	PadRendezvous PaddingMachine = 1
)

// paddingEnd is what one end of a machine sends: a number of DROP cells from least to
// most, each soon to late after what came before.
type paddingEnd struct {
	least, most int
	soon, late  time.Duration
	tells       bool // it says STOP after the last cell
	yields      bool // it sends nothing more once the other end has sent a DROP cell
}

// paddingMachines has the figures of C tor 0.4.9, so that the circuits of both
// programs look alike.
var paddingMachines = [...]struct{ client, relay paddingEnd }{
	PadIntroduction: {relay: paddingEnd{least: 7, most: 9, soon: time.Millisecond, late: 10 * time.Millisecond, tells: true}},
	PadRendezvous: {
		client: paddingEnd{least: 1, most: 1, late: time.Millisecond, yields: true},
		relay:  paddingEnd{least: 1, most: 1, late: time.Millisecond},
	},
}

const (
	// maxPaddings is how many machines a client may begin on one circuit. C tor's begins
	// one, and one more for each introduction point that it goes on to.
	maxPaddings = 16
	// paddingCost is what a circuit with padding counts on its account besides
	// circuitCost, in bytes: the padder with its timer.
	paddingCost = 300
	// maxDrops is how many DROP cells a client takes on a circuit: the machines send
	// fewer, and a relay must not have a channel to a guard that nobody counts.
	maxDrops = 100 + maxPaddings*9
)

// PaddingParams is what the consensus says about circuit padding (padding-spec).
type PaddingParams struct {
	Disabled bool // nothing is sent and no machine begins
	Reduced  bool // only machines that suit reduced padding begin: none of today's
	// Once this process has sent GlobalAllowed DROP cells, they may be at most
	// GlobalPercent of all cells that it sends. Zero percent: no such bound.
	GlobalAllowed, GlobalPercent int32
	MaxQueued                    int32 // a relay sends none if more cells wait
}

// PaddingParamsFrom reads the parameters; param is netdir.Directory.Param.
func PaddingParamsFrom(param func(name string, def, lo, hi int32) int32) PaddingParams {
	return PaddingParams{
		Disabled:      param("circpad_padding_disabled", 0, 0, 1) == 1,
		Reduced:       param("circpad_padding_reduced", 0, 0, 1) == 1,
		GlobalAllowed: param("circpad_global_allowed_cells", 0, 0, 1<<16-2),
		GlobalPercent: param("circpad_global_max_padding_pct", 0, 0, 100),
		MaxQueued:     param("circpad_max_circ_queued_cells", 1000, 0, 50*1000),
	}
}

// DefaultPaddingParams returns what holds if the consensus says nothing.
func DefaultPaddingParams() PaddingParams {
	return PaddingParamsFrom(func(_ string, def, _, _ int32) int32 { return def })
}

// PaddingLimits bounds the padding of all circuits of a process. It may be used by many
// goroutines.
type PaddingLimits struct {
	params atomic.Pointer[PaddingParams]
	drops  *atomic.Uint64 // sent
	cells  func() uint64
}

// NewPaddingLimits returns limits that begin with DefaultPaddingParams. cells returns
// how many cells the process has sent, and drops counts the DROP cells.
func NewPaddingLimits(cells func() uint64, drops *atomic.Uint64) *PaddingLimits {
	l := &PaddingLimits{cells: cells, drops: drops}
	l.Set(DefaultPaddingParams())
	return l
}

// Set takes new parameters.
func (l *PaddingLimits) Set(p PaddingParams) { l.params.Store(&p) }

// begins reports whether a client may begin a machine. Without limits there is no
// padding.
func (l *PaddingLimits) begins() bool {
	if l == nil {
		return false
	}
	p := l.params.Load()
	return !p.Disabled && !p.Reduced
}

// allow reports whether one more DROP cell may be sent where queued cells wait, and
// counts it.
func (l *PaddingLimits) allow(queued int) bool {
	if l == nil {
		return false
	}
	p := l.params.Load()
	if p.Disabled || queued > int(p.MaxQueued) {
		return false
	}
	if sent := l.drops.Load(); p.GlobalPercent > 0 && sent >= uint64(p.GlobalAllowed) && 100*sent > uint64(p.GlobalPercent)*max(l.cells(), 1) {
		return false
	}
	l.drops.Add(1)
	return true
}

// padder is this end's part of the machines of a circuit. They follow each other: a
// circuit has one at a time.
type padder struct {
	h *Hop // the other end

	mu      sync.Mutex // guards what follows; innermost
	count   uint32     // machines begun, which the messages name
	present bool       // there is a machine, which may have sent all
	machine PaddingMachine
	end     *paddingEnd
	left    int // DROP cells to send
	timer   *time.Timer
	answers int  // PADDING_NEGOTIATED messages that a client may still get
	over    bool // the circuit has closed
}

// padder returns the circuit's, whose other end is h; nil if that is not so, or if the
// circuit has closed.
func (c *Circuit) padder(h *Hop) *padder {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed.Load() {
		return nil
	}
	if c.pads == nil {
		c.pads = &padder{h: h}
		c.Account().Reserve(paddingCost)
	}
	if c.pads.h != h {
		return nil
	}
	return c.pads
}

// begin replaces the machine; false if the circuit has had too many.
func (p *padder) begin(m PaddingMachine, end *paddingEnd) (count uint32, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.count >= maxPaddings || p.over {
		return 0, false
	}
	p.stopLocked()
	p.count++
	p.present, p.machine, p.end = true, m, end
	p.answers += 2 // to START, and STOP
	if end.most > 0 {
		p.left = end.least + rand.IntN(end.most-end.least+1)
	}
	return p.count, true
}

// stopLocked ends the machine.
func (p *padder) stopLocked() {
	p.present, p.left = false, 0
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
}

// stop ends the machine that the other end names, and reports whether it is there.
// known says that it was.
func (p *padder) stop(m PaddingMachine, count uint32) (ok, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.present || p.machine != m || count != 0 && count != p.count {
		return false, count <= p.count
	}
	p.stopLocked()
	return true, true
}

// close says that the circuit has closed.
func (p *padder) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	p.stopLocked()
}

// heard says that the other end has sent a DROP cell.
func (p *padder) heard() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.present && p.end.yields {
		p.stopLocked()
	}
}

// wait starts the timer of the machine's next DROP cell, if there is one to send. count
// names the machine: another one that has taken its place meanwhile has its own timer.
func (p *padder) wait(count uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if count != p.count || p.left == 0 || p.over {
		return
	}
	c := p.h.c
	after := p.end.soon + rand.N(p.end.late-p.end.soon)
	p.timer = time.AfterFunc(after, panics.Contain(c.env.Log, c.broke, func() { p.due(count) }))
}

// due sends a machine's DROP cell, and after the last one STOP, if the machine tells.
func (p *padder) due(count uint32) {
	more, stop, ok := p.take(count)
	if !ok {
		return // it was stopped meanwhile
	}
	c := p.h.c
	var err error
	if c.env.Padding.allow(c.home.Load().Queued()) {
		err = p.h.Send(cell.RelayDrop, 0, nil)
	}
	switch {
	case err != nil:
	case more:
		p.wait(count)
	case stop != nil:
		err = p.h.Send(cell.RelayPaddingNegotiated, 0, stop.Append(nil))
	}
	if fault.Except(fault.Closed, err) != nil {
		c.Close(cell.DestroyInternal, err)
	}
}

// take takes one of the machine's DROP cells to send. more says that there are others; if there
// are none, stop is what to say then, or nil.
func (p *padder) take(count uint32) (more bool, stop *cell.CircPaddingNegotiated, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if count != p.count || p.left == 0 {
		return false, nil, false
	}
	if p.left--; p.left > 0 {
		return true, nil, true
	}
	p.timer = nil
	if p.end.tells {
		p.present = false
		stop = &cell.CircPaddingNegotiated{Command: cell.PaddingStop, OK: true, Machine: uint8(p.machine), Counter: p.count}
	}
	return false, stop, true
}
