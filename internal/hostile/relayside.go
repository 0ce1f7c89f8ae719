package hostile

import (
	"bytes"
	"context"
	"net"
	"sync"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/simnet"
)

// relaySide is a hostile relay: it accepts links, proves its identity, and
// answers cells that open circuits as a script says.
type relaySide struct {
	target linkspec.Target
	keys   *simnet.Keys
	ln     net.Listener
	stop   context.CancelFunc
	wg     sync.WaitGroup

	mu     sync.Mutex // guards what follows; never held while anything waits
	script Insn       // A: see scripts; B: how long; C: ans bits
	peers  []*peer
	ends   []*end
	late   []func() // answers that wait

	mangle mangle // changes of the cells that the program makes the relay send
}

// The scripts of answers. Insn.A, modulo, selects one.
const (
	answerRight = iota
	answerSized // B selects a number of zero bytes
	answerOther // the other command
	answerTwice
	answerLate // later, when the program says so
	answerNever
	answerDestroy       // DESTROY instead
	answerDestroyBefore // DESTROY, and then the answer
	answerDestroyAfter
	answerHangUp // the link is closed
	answerShort  // the length field is too large
	answerMore   // garbage relay cells after the answer
	answerKinds
)

// answerSizes are the lengths of answers without meaning.
var answerSizes = []int{3000, 64, 2048, 2049, 0, 1, 84, 96, 480, 505, 507, 1000, 1184, 2044, 4096, 8100}

// newRelaySide listens at a target's address.
func newRelaySide(w interface{ Fatal(...any) }, m *simnet.Network, keys *simnet.Keys, t linkspec.Target) *relaySide {
	ln, err := m.Listen(t.Addrs[0])
	if err != nil {
		w.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &relaySide{target: t, keys: keys, ln: ln, stop: stop}
	cfg := &channel.LinkConfig{Identity: keys.Link, Addrs: addrsOf(t)}
	r.wg.Go(func() {
		for {
			raw, err := ln.Accept()
			if err != nil {
				return
			}
			r.wg.Go(func() {
				if l, err := channel.Accept(ctx, raw, cfg); err == nil {
					r.adopt(newPeer(l, r.take))
				}
			})
		}
	})
	return r
}

func (r *relaySide) adopt(p *peer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.peers = append(r.peers, p)
}

// setScript selects the answers to circuits from now on.
func (r *relaySide) setScript(i Insn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.script = i
}

// flush sends the joined cells.
func (r *relaySide) flush() {
	r.mu.Lock()
	peers := r.peers
	r.mu.Unlock()
	for _, p := range peers {
		p.write(nil, false)
	}
}

// hangUp closes all links.
func (r *relaySide) hangUp() {
	r.mu.Lock()
	peers := r.peers
	r.mu.Unlock()
	for _, p := range peers {
		p.close()
	}
}

func (r *relaySide) close() {
	r.stop()
	_ = r.ln.Close()
	r.wg.Wait()
	r.hangUp()
}

// end returns the circuit that was opened n circuits before the last.
func (r *relaySide) end(n byte) *end {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ends) == 0 {
		return nil
	}
	return r.ends[len(r.ends)-1-int(n)%len(r.ends)]
}

// take handles a cell from a link, on the link's reader.
func (r *relaySide) take(p *peer, id uint32, cmd cell.Command, body []byte) {
	switch cmd {
	case cell.CmdCreate2, cell.CmdLongCreate2, cell.CmdCreateFast:
		r.open(p, id, cmd, bytes.Clone(body))
		return
	}
	r.mu.Lock()
	var to *end
	for _, e := range r.ends {
		if e.p == p && e.id == id {
			to = e
		}
	}
	r.mu.Unlock()
	if to != nil {
		to.take(cmd, body)
	}
}

// open answers a request for a circuit.
func (r *relaySide) open(p *peer, id uint32, cmd cell.Command, body []byte) {
	e := &end{p: p, id: id}
	r.mu.Lock()
	r.ends = append(r.ends, e)
	s := r.script
	r.mu.Unlock()
	reply, h, err := answerCall(r.keys, advertised(r.target), cmd, body, s.C)
	if err != nil {
		p.write(linkCell(id, cell.CmdDestroy, []byte{byte(cell.DestroyProtocol)}), false)
		return
	}
	e.mu.Lock()
	e.hops = []*hop{h}
	e.mu.Unlock()
	answer := linkCell(id, answerCommand(cmd), reply)
	destroy := linkCell(id, cell.CmdDestroy, []byte{byte(cell.DestroyFinished)})
	switch s.A % answerKinds {
	case answerSized:
		answer = linkCell(id, answerCommand(cmd), binaryVec(make([]byte, pick(answerSizes, s.B))))
	case answerOther:
		others := []cell.Command{cell.CmdCreated2, cell.CmdCreatedFast, cell.CmdLongCreated2, cell.CmdCreated}
		answer = linkCell(id, pick(others, s.B), reply)
	case answerTwice:
		answer = bytes.Repeat(answer, 2)
	case answerLate:
		r.mu.Lock()
		r.late = append(r.late, func() { p.write(answer, false) })
		r.mu.Unlock()
		return
	case answerNever:
		return
	case answerDestroy:
		answer = destroy
	case answerDestroyBefore:
		answer = append(destroy, answer...)
	case answerDestroyAfter:
		answer = append(answer, destroy...)
	case answerHangUp:
		p.close()
		return
	case answerShort:
		answer = linkCell(id, answerCommand(cmd), append([]byte{0xff, 0xff}, reply[2:]...))
	case answerMore:
		for range pick(counts, s.B) {
			answer = append(answer, linkCell(id, cell.CmdRelay, bytes.Repeat([]byte{s.B}, cell.PayloadLen))...)
		}
	}
	p.write(answer, false)
}

// answerNow sends the answers that wait.
func (r *relaySide) answerNow() {
	r.mu.Lock()
	late := r.late
	r.late = nil
	r.mu.Unlock()
	for _, f := range late {
		f()
	}
}
