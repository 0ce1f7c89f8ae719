package client

import (
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"time"

	"github.com/chivenet/chive/internal/cbt"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/stream"
)

// Before a client that looks like C tor's closes a circuit on which streams were tried, and none was answered, it asks the exit for what
// no exit opens: an address of 0.0.0.0/8, of which the exit's refusal has the random rest. A guard that has let through both is not to
// blame, and one that watches sees that this client asks, as others do (C tor 0.4.9.11, circpathbias.c, pathbias_send_usable_probe).

const probePort = 25

// probes reports whether the circuit is not closed now, because the exit is asked first. C tor asks on no leg of a set, and on no circuit
// of which a controller has chosen a relay.
func (c *OpenCircuit) probes() bool {
	if c.probing.Load() {
		return c.client.ctx.Err() == nil && c.Err() == nil
	}
	u := c.path.Guard
	if c.client.cfg.Fast || c.client.ctx.Err() != nil || u == nil || !u.Doubtful() || !c.mayProbe() || !c.probing.CompareAndSwap(false, true) {
		return false
	}
	return c.client.lives.run(c.client, c.probe) == nil
}

func (c *OpenCircuit) mayProbe() bool {
	return c.Err() == nil && c.Last() != nil && !c.inSet() && !c.Steered() && !c.excused.Load() && !c.longer.Load()
}

// inSet reports whether the circuit is, or was, a leg of a conflux set.
func (c *OpenCircuit) inSet() bool {
	p := c.life.report().Purpose
	return len(c.legs) > 0 || p == InSet || p == ForSet
}

// probe asks the exit, and closes the circuit when there is an answer, or when there was none for as long as a circuit may take.
func (c *OpenCircuit) probe() {
	defer c.closeNow()
	var limit time.Duration
	c.client.times.use(func(e *cbt.Estimator) { limit = e.GiveUp(path.DefaultHops) })
	ctx, cancel := context.WithTimeout(c.client.ctx, limit)
	defer cancel()
	// Whoever waits for the answer hears of its end by the circuit's: C tor sends no END.
	defer context.AfterFunc(ctx, panics.Contain(c.client.log, nil, c.closeNow))()
	if answered, err := c.askNonsense(); answered {
		c.path.Guard.StreamAnswered()
	} else if c.Err() == nil {
		c.client.log.Debug("an exit did not refuse as it should", "circuit", c.id, "err", err)
		<-ctx.Done() // as C tor waits for an answer that is right
	}
}

// askNonsense reports whether the exit refuses what it is asked for, and knows what that was.
func (c *OpenCircuit) askNonsense() (bool, error) {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], newRand().Uint32()>>8)
	addr := netip.AddrFrom4(b)
	s, err := stream.Begin(c.Last(), addr.String(), probePort, stream.IPv4Only)
	if err != nil {
		return false, err
	}
	err = s.WaitOpen(context.Background()) // the circuit ends in time
	var end *stream.EndError
	return errors.As(err, &end) && end.Reason == cell.EndExitPolicy && end.Addr == addr, err
}
