package appearance

import (
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/cell"
)

// view is what was seen of one client.
type view struct {
	subject   string
	role      role
	conns     []*conn
	circuits  []*circuit
	marks     []mark
	keepAlive bool
}

// circuit is a client's circuit, followed through the relays by its onionskins.
type circuit struct {
	link      *link
	id        uint32
	began     time.Time
	create    cell.Command
	skin      []byte // the body of CREATE2
	hops      []spot
	extends   []*cell.Extend2
	early     int // RELAY_EARLY cells of the client
	later     int // RELAY cells of the client
	destroyed time.Time
	reason    byte
}

// view collects what belongs to a client. Nothing is recorded any more when it is called.
func (r *recorder) view(c *client) *view {
	v := &view{subject: c.subject.Name, role: c.role, marks: c.marks}
	for _, k := range r.conns {
		if k.client == c {
			v.conns = append(v.conns, k)
		}
	}
	for _, k := range v.conns {
		if k.link != nil {
			v.circuits = append(v.circuits, r.circuits(k.link)...)
		}
	}
	slices.SortFunc(v.circuits, func(a, b *circuit) int { return a.began.Compare(b.began) })
	return v
}

// circuits returns a link's circuits.
func (r *recorder) circuits(l *link) []*circuit {
	open := map[uint32]*circuit{}
	var all []*circuit
	for _, e := range l.cells {
		c := open[e.circ]
		switch {
		case e.out:
		case e.cmd == cell.CmdCreate2 || e.cmd == cell.CmdCreateFast || e.cmd == cell.CmdLongCreate2:
			c = &circuit{link: l, id: e.circ, began: e.at, create: e.cmd, skin: e.body, hops: []spot{{l, e.circ}}}
			open[e.circ] = c
			all = append(all, c)
		case c == nil:
		case e.cmd == cell.CmdRelayEarly:
			c.early++
		case e.cmd == cell.CmdRelay:
			c.later++
		case e.cmd == cell.CmdDestroy && c.destroyed.IsZero():
			c.destroyed, c.reason = e.at, e.body[0]
		}
	}
	for _, c := range all {
		for {
			to, x, found := r.next(c.hops[len(c.hops)-1])
			if x != nil {
				c.extends = append(c.extends, x)
			}
			if !found || len(c.hops) > 8 {
				break
			}
			c.hops = append(c.hops, to)
		}
	}
	return all
}

// messages returns those of one command that hop n got, from 0; -1 is the last hop.
func (c *circuit) messages(n int, cmd cell.RelayCommand) []message {
	if n < 0 {
		n += len(c.hops)
	}
	var out []message
	if n < 0 || n >= len(c.hops) {
		return nil
	}
	at := c.hops[n]
	for _, m := range at.link.heard {
		if m.circ == at.circ && m.cmd == cmd {
			out = append(out, m)
		}
	}
	return out
}

// has reports whether the last hop got a message of a command.
func (c *circuit) has(cmd cell.RelayCommand) bool { return len(c.messages(-1, cmd)) > 0 }

// whole reports whether the circuit was followed to the last of its hops, and has as many as clients use.
func (c *circuit) whole() bool { return len(c.hops) == len(c.extends)+1 && len(c.hops) != 2 }

// directory reports whether the circuit has one hop and carries requests for the directory.
func (c *circuit) directory() bool { return len(c.hops) == 1 && c.has(cell.RelayBeginDir) }

// at returns the time of a mark, the first of its name; zero: there is none.
func (v *view) at(name string) time.Time {
	for _, m := range v.marks {
		if m.name == name {
			return m.at
		}
	}
	return time.Time{}
}

// between returns the circuits that began between two marks.
func (v *view) between(from, to string) []*circuit {
	var out []*circuit
	for _, c := range v.circuits {
		if !c.began.Before(v.at(from)) && c.began.Before(v.at(to)) {
			out = append(out, c)
		}
	}
	return out
}

// conns returns the connections that began between two marks.
func (v *view) connsBetween(from, to string) []*conn {
	var out []*conn
	for _, k := range v.conns {
		if !k.opened.Before(v.at(from)) && k.opened.Before(v.at(to)) {
			out = append(out, k)
		}
	}
	return out
}

// cells returns the cells of a command on all the client's links, from it or to it, between two times.
func (v *view) cells(cmd cell.Command, out bool, from, to time.Time) []seen {
	var all []seen
	for _, k := range v.conns {
		if k.link == nil {
			continue
		}
		for _, e := range k.link.cells {
			if e.cmd == cmd && e.out == out && !e.at.Before(from) && e.at.Before(to) {
				all = append(all, e)
			}
		}
	}
	return all
}

// destroys returns the circuits that the client has destroyed between two times.
func (v *view) destroys(from, to time.Time) []*circuit {
	var out []*circuit
	for _, c := range v.circuits {
		if !c.destroyed.IsZero() && !c.destroyed.Before(from) && c.destroyed.Before(to) {
			out = append(out, c)
		}
	}
	return out
}

// request is the head of a request for a document.
type request struct {
	at      time.Time
	circuit *circuit
	head    string
}

// requests returns the directory requests of the client, of all circuits.
func (v *view) requests() []request {
	var out []request
	for _, c := range v.circuits {
		for _, b := range c.messages(-1, cell.RelayBeginDir) {
			var text []byte
			for _, m := range c.messages(-1, cell.RelayData) {
				if m.stream == b.stream && !m.at.Before(b.at) {
					text = append(text, m.data...)
				}
			}
			head, _, whole := strings.Cut(string(text), "\r\n\r\n")
			if whole {
				out = append(out, request{b.at, c, head})
			}
		}
	}
	slices.SortFunc(out, func(a, b request) int { return a.at.Compare(b.at) })
	return out
}

// skinOf returns type and length of an onionskin in CREATE2.
func (c *circuit) skinOf() (kind, length int, ok bool) {
	if c.create != cell.CmdCreate2 || len(c.skin) < 4 {
		return 0, 0, false
	}
	return int(binary.BigEndian.Uint16(c.skin)), int(binary.BigEndian.Uint16(c.skin[2:])), true
}
