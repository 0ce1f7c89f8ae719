package circuit

import (
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/fault"
)

// partnerSide receives for the partner channel, the one toward the exit.
type partnerSide struct {
	c    *Circuit
	h    *Hop
	s    *Server
	ch   *channel.Channel
	form *cell.Form // of the CREATE cell that it is to answer
	done bool       // the answer came; owned by the partner's reader
}

func (ps *partnerSide) HandleCells(cells []byte) { ps.c.fromPartner(ps.ch, cells) }

func (ps *partnerSide) HandleBatchEnd() {}

func (ps *partnerSide) HandleControl(cmd cell.Command, p []byte) {
	if cmd != ps.form.Created || ps.done {
		ps.c.violation(fault.New(fault.Protocol, "unexpected %v cell from the next relay", cmd))
		return
	}
	ps.done = true
	m, err := ps.form.ParseCreated(p)
	if err != nil {
		ps.c.violation(err)
		return
	}
	e := cell.Extended2(m)
	err = ps.h.sendMeta(ps.form.Extended, e.Append(nil), false)
	if err != nil && !fault.Is(err, fault.Closed) {
		ps.c.violation(err)
	}
}

func (ps *partnerSide) HandleDestroy(reason cell.DestroyReason, err error) {
	if !ps.done {
		ps.s.cfg.Stats.ExtendsFailed.Add(1)
	}
	if broken(reason, err) {
		ps.c.broke(err)
		return
	}
	ps.c.truncated(ps.h, reason)
}

func (ps *partnerSide) HandleWritable() {}
