package channel

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
)

// PaddingConfig says how a channel hides when it is idle (padding-spec,
// "connection-level padding") and keeps the connection alive.
type PaddingConfig struct {
	// Low and High bound the random time after which an idle link with
	// circuits sends a padding cell; both zero: none is sent.
	Low, High time.Duration
	// KeepAlive is the time after which a link that sent nothing sends a
	// padding cell, whatever Low and High say; zero: never.
	KeepAlive time.Duration
	// Stop asks the peer by PADDING_NEGOTIATE to send no padding (reduced
	// padding, or none).
	Stop bool
}

// DefaultPadding is the network's: 1.5 to 9.5 seconds, keepalive of 5 minutes.
func DefaultPadding() PaddingConfig {
	return PaddingConfig{Low: 1500 * time.Millisecond, High: 9500 * time.Millisecond, KeepAlive: 5 * time.Minute}
}

// padder sends padding cells on one idle channel.
type padder struct {
	ch *Channel

	mu      sync.Mutex // guards what follows
	cfg     PaddingConfig
	timer   *time.Timer
	stopped bool
}

func newPadder(ch *Channel, cfg PaddingConfig) *padder {
	p := &padder{ch: ch, cfg: cfg}
	if cfg.Stop && ch.link.Initiator {
		var b [cell.Len]byte
		cell.PutHeader(b[:], 0, cell.CmdPaddingNegotiate)
		copy(cell.Payload(b[:])[:], []byte{0, paddingStop, 0, 0, 0, 0})
		ch.sendUrgent(b[:])
	}
	p.arm(p.pick())
	return p
}

// The commands of PADDING_NEGOTIATE.
const (
	paddingStop  = 1
	paddingStart = 2
)

// pick draws the next timeout: the greater of two uniform samples, as
// padding-spec says; zero for none.
func (p *padder) pick() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cfg.High <= 0 {
		return p.cfg.KeepAlive
	}
	span := int64(p.cfg.High - p.cfg.Low)
	if span <= 0 {
		return p.cfg.Low
	}
	return p.cfg.Low + time.Duration(max(rand.Int64N(span), rand.Int64N(span)))
}

func (p *padder) arm(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped || d <= 0 {
		return
	}
	if p.timer == nil {
		p.timer = time.AfterFunc(d, func() { p.fire(d) })
	} else {
		p.timer.Stop()
		p.timer = time.AfterFunc(d, func() { p.fire(d) })
	}
}

// fire runs when the timeout d has passed since it was armed: it pads if the
// link was idle for all of it, and arms the next.
func (p *padder) fire(d time.Duration) {
	p.mu.Lock()
	cfg := p.cfg
	p.mu.Unlock()
	now := p.ch.cfg.Now()
	out := now.Sub(time.Unix(0, p.ch.lastOut.Load()))
	in := now.Sub(time.Unix(0, p.ch.lastIn.Load()))
	if idle := min(in, out); idle < d && cfg.High > 0 {
		p.arm(d - idle)
		return
	}
	circuits, _ := p.ch.Circuits()
	padded := cfg.High > 0 && circuits > 0
	keep := cfg.KeepAlive > 0 && out >= cfg.KeepAlive
	if padded || keep {
		var b [cell.Len]byte
		cell.PutHeader(b[:], 0, cell.CmdPadding)
		p.ch.sendUrgent(b[:])
	}
	p.arm(p.pick())
}

// negotiate takes the peer's PADDING_NEGOTIATE; only a responder gets one.
func (p *padder) negotiate(b *[cell.PayloadLen]byte) error {
	if p.ch.link.Initiator {
		return fault.New(fault.Protocol, "channel: PADDING_NEGOTIATE from a relay")
	}
	if b[0] != 0 {
		return nil // a later version: not ours to read
	}
	low := time.Duration(binary.BigEndian.Uint16(b[2:])) * time.Millisecond
	high := time.Duration(binary.BigEndian.Uint16(b[4:])) * time.Millisecond
	p.mu.Lock()
	switch b[1] {
	case paddingStop:
		p.cfg.Low, p.cfg.High = 0, 0
	case paddingStart:
		def := DefaultPadding()
		p.cfg.Low, p.cfg.High = max(low, def.Low), max(high, def.High)
	default:
		p.mu.Unlock()
		return fault.New(fault.Protocol, "channel: PADDING_NEGOTIATE: unknown command %d", b[1])
	}
	p.mu.Unlock()
	p.arm(p.pick())
	return nil
}

func (p *padder) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	if p.timer != nil {
		p.timer.Stop()
	}
}
