package appearance

import (
	"time"

	"github.com/chivenet/chive/internal/cell"
)

// Trace is what was recorded of one client in a day. Times are seconds since the simulator's begin; 0: never.
type Trace struct {
	Name, Subject, Role string
	Links               []TraceLink
	Circuits            []TraceCircuit
	Requests            []TraceRequest
}

// TraceLink is a connection to a relay.
type TraceLink struct {
	Relay         int
	Opened, Ended float64
	How           string
	Padding       []float64 // the client's own cells
	Padded        int       // those of the relay
	Negotiate     []string
	Last          float64 // the last cell of a circuit, from either side
}

// TraceCircuit is a circuit, by its guard's link.
type TraceCircuit struct {
	Link, ID         int
	Began, Destroyed float64
	Create           string
	Relays           []int // which it went over
	Asked            int   // EXTENDs and CREATE: it is whole if Relays has as many
	Said             []string
	Reason           byte
	Cells            int // from the client
}

// TraceRequest is one for a directory document, or an upload.
type TraceRequest struct {
	At      float64
	Circuit int
	Form    string
	Head    string
}

func since(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return t.Sub(dayStart).Seconds()
}

// traced are the messages whose presence says what a circuit is for.
var traced = []cell.RelayCommand{cell.RelayBeginDir, cell.RelayBegin, cell.RelayConfluxLink, cell.RelayEstablishIntro, cell.RelayIntroduce1,
	cell.RelayEstablishRendezvous, cell.RelayRendezvous1}

// trace makes the trace of a client. The caller holds the recorder's mu.
func (r *recorder) trace(c dayClient, k *client) *Trace {
	v := r.view(k)
	t := &Trace{Name: c.Name, Subject: c.Subject, Role: c.Role}
	number := map[*link]int{}
	for i, k := range v.conns {
		l := TraceLink{Relay: k.relay, Opened: since(k.opened), Ended: since(k.ended), How: k.how}
		if k.link != nil {
			number[k.link] = i
			for _, e := range k.link.cells {
				switch {
				case e.cmd == cell.CmdPadding && e.out:
					l.Padded++
				case e.cmd == cell.CmdPadding:
					l.Padding = append(l.Padding, since(e.at))
				case e.cmd == cell.CmdPaddingNegotiate:
					l.Negotiate = append(l.Negotiate, string(rune('0'+e.body[1])))
				case e.circ != 0:
					l.Last = since(e.at)
				}
			}
		}
		t.Links = append(t.Links, l)
	}
	at := map[*circuit]int{}
	for i, c := range v.circuits {
		at[c] = i
		tc := TraceCircuit{Link: number[c.link], ID: int(c.id), Began: since(c.began), Destroyed: since(c.destroyed), Create: c.create.String(),
			Asked: len(c.extends) + 1, Reason: c.reason, Cells: c.early + c.later}
		for _, h := range c.hops {
			tc.Relays = append(tc.Relays, h.link.relay)
		}
		for _, cmd := range traced {
			if c.has(cmd) {
				tc.Said = append(tc.Said, cmd.String())
			}
		}
		t.Circuits = append(t.Circuits, tc)
	}
	for _, q := range v.requests() {
		form, _ := q.lines()
		t.Requests = append(t.Requests, TraceRequest{since(q.at), at[q.circuit], form, q.head})
	}
	return t
}
