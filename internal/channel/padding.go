package channel

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/panics"
)

// PaddingConfig says how an idle channel hides that it is idle (padding-spec,
// "connection-level padding") and keeps the connection alive.
type PaddingConfig struct {
	// Low and High bound the random time after which an idle link that was used by a
	// circuit of several hops (Channel.NoteMultiHop) sends a padding cell. If both are zero,
	// it sends none.
	Low, High time.Duration
	// OnlyClients leaves links between relays without padding: the default of a
	// relay, which the consensus can change.
	OnlyClients bool
	// KeepAlive is the time after which a link that sent nothing sends a padding
	// cell, whatever the other fields say; zero means never.
	KeepAlive time.Duration
	// Stop asks the peer by PADDING_NEGOTIATE to send no padding (reduced padding,
	// or none). It applies to links that this end opens.
	Stop bool
	// ClientIdle is how long a link without circuits rests until it is closed, and RelayIdle
	// about how long canonical links between relays rest; see Channel.restTime. Zero: three
	// minutes, and no exception for relays.
	ClientIdle, RelayIdle time.Duration
}

// PaddingMode is a way of padding.
type PaddingMode uint8

// The ways of padding.
const (
	PadFull    PaddingMode = iota // the default of a client
	PadReduced                    // for a client that must save traffic: the relay sends none, and the client less
	PadOff                        // none in both directions
	PadRelay                      // the mode of a relay
)

// keepAlive is C tor's KeepalivePeriod.
const keepAlive = 5 * time.Minute

// PaddingFrom returns the configuration of a mode with the consensus's parameters
// (padding-spec, "consensus parameters"). param returns a parameter by name,
// default and bounds, as netdir.Directory.Param does.
func PaddingFrom(param func(name string, def, lo, hi int32) int32, mode PaddingMode) PaddingConfig {
	suffix, low, high := "", int32(1500), int32(9500) // milliseconds
	if mode == PadReduced {
		suffix, low, high = "_reduced", 9000, 14000
	}
	const most = 60000
	low = param("nf_ito_low"+suffix, low, 0, most)
	high = max(param("nf_ito_high"+suffix, high, 0, most), low)
	out := PaddingConfig{
		Low: time.Duration(low) * time.Millisecond, High: time.Duration(high) * time.Millisecond,
		KeepAlive: keepAlive, Stop: mode == PadReduced || mode == PadOff,
	}
	switch mode {
	case PadOff:
		out.Low, out.High = 0, 0
	case PadReduced:
		out.ClientIdle = idleTimeout / 2
	case PadRelay:
		out.OnlyClients = param("nf_pad_relays", 0, 0, 1) == 0
		out.RelayIdle = time.Duration(param("nf_conntimeout_relays", 3600, 60, 7*24*3600)) * time.Second
	}
	return out
}

// AvailableFrom returns for how long at least a client keeps circuits open that it does not
// use, and so its link to the guard (padding-spec, "nf_conntimeout_clients").
func AvailableFrom(param func(name string, def, lo, hi int32) int32, mode PaddingMode) time.Duration {
	d := time.Duration(param("nf_conntimeout_clients", 1800, 60, 24*3600)) * time.Second
	if mode == PadReduced {
		d /= 2
	}
	return d
}

// DefaultPadding is PaddingFrom without a consensus.
func DefaultPadding(mode PaddingMode) PaddingConfig {
	return PaddingFrom(func(_ string, def, _, _ int32) int32 { return def }, mode)
}

// Padding is the padding of all channels of a process. It may change while they are
// open: each channel uses the new configuration after its present timeout.
type Padding struct{ cfg atomic.Pointer[PaddingConfig] }

// NewPadding returns a Padding that begins with cfg.
func NewPadding(cfg PaddingConfig) *Padding {
	p := new(Padding)
	p.Set(cfg)
	return p
}

// Set changes how channels pad.
func (p *Padding) Set(cfg PaddingConfig) { p.cfg.Store(&cfg) }

// get returns the configuration; a nil Padding sends none.
func (p *Padding) get() PaddingConfig {
	if p == nil {
		return PaddingConfig{}
	}
	return *p.cfg.Load()
}

// padder sends padding cells on one idle channel.
type padder struct {
	ch   *Channel
	used atomic.Bool // by a circuit of several hops

	mu      sync.Mutex // guards what follows
	asked   asked      // by the peer
	timer   *time.Timer
	stopped bool
}

// asked holds what a client asked for with PADDING_NEGOTIATE.
type asked struct {
	none      bool          // no padding
	low, high time.Duration // no padding earlier than this
}

func newPadder(ch *Channel, cfg PaddingConfig) *padder {
	p := &padder{ch: ch}
	if cfg.Stop && ch.link.Initiator {
		var b [cell.Len]byte
		cell.PutHeader(b[:], 0, cell.CmdPaddingNegotiate)
		stop := cell.PaddingNegotiate{Command: cell.PaddingStop}
		stop.Append(cell.Payload(b[:])[:0])
		ch.sendUrgent(b[:])
	}
	p.arm()
	return p
}

// NoteMultiHop says that a circuit of several hops uses the link. From then on the link is
// padded, also while it has no circuit: what passes on links that only carry directory
// requests, over one hop, has nothing to hide (padding-spec, "relay-to-relay and client
// padding"; C tor's channel usage).
func (ch *Channel) NoteMultiHop() {
	if !ch.pad.used.Load() && ch.pad.used.CompareAndSwap(false, true) {
		ch.pad.arm()
	}
}

// config is how this channel pads now.
func (p *padder) config() PaddingConfig {
	c := p.ch.cfg.Padding.get()
	p.mu.Lock()
	a := p.asked
	p.mu.Unlock()
	client := !p.ch.link.Initiator && !p.ch.link.PeerAuthenticated
	if a.none || c.OnlyClients && !client || !p.used.Load() {
		c.Low, c.High = 0, 0
	}
	if c.High > 0 {
		c.Low, c.High = max(a.low, c.Low), max(a.high, c.High)
	}
	return c
}

// pick chooses the next timeout at random: the greater of two uniform samples, as
// padding-spec says; zero for none.
func (p *padder) pick() time.Duration {
	c := p.config()
	if c.High <= 0 {
		return c.KeepAlive
	}
	span := int64(c.High - c.Low)
	if span <= 0 {
		return c.Low
	}
	return c.Low + time.Duration(max(rand.Int64N(span), rand.Int64N(span)))
}

// look is how often a link that is padded looks whether something has passed. It is shorter
// than the shortest timeout, and C tor's.
const look = time.Second

// idle returns since when nothing has passed.
func (p *padder) idle() time.Time {
	return time.Unix(0, max(p.ch.lastIn.Load(), p.ch.lastOut.Load()))
}

// arm starts anew: with a timeout from the last cell that passed.
func (p *padder) arm() { p.wait(p.idle(), time.Time{}) }

// wait has fire run when padding is due, or when it is time to look. since is the last cell that passed, and due
// when padding follows it; zero: that is drawn now.
func (p *padder) wait(since, due time.Time) {
	d := p.pick()
	if due.IsZero() {
		due = since.Add(d)
	}
	left := max(due.Sub(p.ch.cfg.Now()), 0)
	if p.config().High > 0 {
		left = min(left, look)
	}
	if d > 0 {
		p.later(left, since, due)
	}
}

// later has fire run after a time.
func (p *padder) later(left time.Duration, since, due time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return
	}
	if p.timer != nil {
		p.timer.Stop()
	}
	p.timer = time.AfterFunc(left, panics.Contain(p.ch.cfg.Log, p.ch.Close, func() { p.fire(since, due) }))
}

// fire sends padding if it is due. Once a cell has passed, the timeout is drawn anew, as in C
// tor: a long one that was kept would make the other end send most of the padding.
func (p *padder) fire(since, due time.Time) {
	cfg := p.config()
	now := p.ch.cfg.Now()
	if cfg.High > 0 {
		if last := p.idle(); last.After(since) {
			p.wait(last, time.Time{})
			return
		}
		if now.Before(due) {
			p.wait(since, due)
			return
		}
		if out := time.Unix(0, p.ch.lastOut.Load()); p.ch.holdsEnds() && (cfg.KeepAlive <= 0 || now.Sub(out) < cfg.KeepAlive) {
			p.later(look, since, due)
			return
		}
	} else if out := time.Unix(0, p.ch.lastOut.Load()); cfg.KeepAlive <= 0 || now.Sub(out) < cfg.KeepAlive {
		p.wait(out, time.Time{})
		return
	}
	var b [cell.Len]byte
	cell.PutHeader(b[:], 0, cell.CmdPadding)
	p.ch.sendUrgent(b[:])
	p.wait(now, time.Time{})
}

// negotiate handles the peer's PADDING_NEGOTIATE. As in C tor, one that this end does not
// understand costs nothing, and neither does one from the relay that this end dialled, which
// has no say in how it pads: a relay that also has single onion services may send it.
func (p *padder) negotiate(b *[cell.PayloadLen]byte) {
	m, err := cell.ParsePaddingNegotiate(b[:])
	if err != nil || p.ch.link.Initiator {
		return
	}
	a := asked{none: true}
	if m.Command == cell.PaddingStart {
		low, high := time.Duration(m.LowMsec)*time.Millisecond, time.Duration(m.HighMsec)*time.Millisecond
		a = asked{low: low, high: max(low, high)}
	}
	p.mu.Lock()
	p.asked = a
	p.mu.Unlock()
	p.arm()
}

func (p *padder) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	if p.timer != nil {
		p.timer.Stop()
	}
}
