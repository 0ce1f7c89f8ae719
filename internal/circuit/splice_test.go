package circuit

import (
	"bytes"
	"crypto/rand"
	"testing"
	"testing/synctest"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
)

// joined makes a client's and a service's circuit and joins them.
func (r *rig) joined(o, at HopOptions) (client, service *hsEnd) {
	r.t.Helper()
	var cookie [cell.CookieLen]byte
	if _, err := rand.Read(cookie[:]); err != nil {
		r.t.Fatal(err)
	}
	client, service = r.hsCircuit(r.client, o), r.hsCircuit(r.beyond, at)
	client.say(cell.RelayEstablishRendezvous, cookie[:])
	client.heard(cell.RelayRendezvousEstablished)
	body := bytes.Repeat([]byte{9}, 148)
	service.say(cell.RelayRendezvous1, append(cookie[:], body...))
	if got := client.heard(cell.RelayRendezvous2); !bytes.Equal(got, body) {
		r.t.Fatalf("RENDEZVOUS2 is %x", got)
	}
	service.silent()
	return client, service
}

// noStreams marks the service's end.
type noStreams struct{}

func (noStreams) HandleStream(h *Hop, m cell.RelayMsg) error { return h.unexpected(m.Cmd) }

// virtual adds the hop that a client and a service have in common.
func (e *hsEnd) virtual(seed []byte, service bool, o HopOptions) *Hop {
	e.r.t.Helper()
	var streams StreamHandler
	if service {
		streams = noStreams{}
	}
	h, err := e.c.AddRendezvous(bytes.NewReader(seed), o, streams)
	if err != nil {
		e.r.t.Fatal(err)
	}
	return h
}

// junk sends a cell that is for nobody.
func (e *hsEnd) junk(cmd cell.Command) {
	b := make([]byte, cell.Len)
	_, _ = rand.Read(b)
	cell.PutHeader(b, 0, cmd)
	if err := e.c.home.Load().Send(b); err != nil {
		e.r.t.Fatal(err)
	}
	synctest.Wait()
}

// TestSplice: what one half sends to the other arrives, in order, whatever relay
// crypto either has, and whichever they have in common. The first ones are in RELAY_EARLY
// cells, which arrive as RELAY.
func TestSplice(t *testing.T) {
	for name, o := range map[string][3]HopOptions{
		"tor1, tor1": {{}, {}, {}}, "tor1, CGO": {{}, congested, {}}, "CGO, tor1": {congested, {}, {}}, "CGO, CGO": {congested, congested, {}},
		"tor1, tor1 over CGO": {{}, {}, congested}, "tor1, CGO over CGO": {{}, congested, congested},
		"CGO, tor1 over CGO": {congested, {}, congested}, "CGO, CGO over CGO": {congested, congested, congested},
	} {
		t.Run(name, func(t *testing.T) {
			onRig(t, func(r *rig) {
				client, service := r.joined(o[0], o[1])
				seed := make([]byte, 1000)
				_, _ = rand.Read(seed)
				to, from := client.virtual(seed, false, o[2]), service.virtual(seed, true, o[2])
				for i := range 100 {
					if err := to.Send(cell.RelayDrop, 0, []byte{1, byte(i)}); err != nil {
						t.Fatal(err)
					}
					if err := from.Send(cell.RelayDrop, 0, []byte{2, byte(i)}); err != nil {
						t.Fatal(err)
					}
				}
				if client.c.early > 0 || service.c.early > 0 {
					t.Errorf("RELAY_EARLY cells that are left: %d and %d", client.c.early, service.c.early)
				}
				synctest.Wait()
				for i := range 100 {
					if b := service.heard(cell.RelayDrop); !bytes.Equal(b, []byte{1, byte(i)}) {
						t.Fatalf("message %d: %x", i, b)
					}
					if b := client.heard(cell.RelayDrop); !bytes.Equal(b, []byte{2, byte(i)}) {
						t.Fatalf("message %d: %x", i, b)
					}
				}
				// Each can still speak with the relay.
				client.say(cell.RelayDrop, nil)
				service.say(cell.RelayTruncate, []byte{0})
				service.heard(cell.RelayTruncated)
				if !client.lives() || !service.lives() {
					t.Errorf("%v, %v", client.c.Err(), service.c.Err())
				}
				service.close()
				if client.lives() {
					t.Error("the client's circuit outlives the service's")
				}
				if n := r.server.cfg.Stats.Rendezvous.Load(); n != 1 {
					t.Errorf("%d rendezvous are counted", n)
				}
				r.nothingLeft(name)
			})
		})
	}
}

// TestSpliceIsBounded: cells that the other half does not take wait up to the bound,
// and then both close.
func TestSpliceIsBounded(t *testing.T) {
	onRig(t, func(r *rig) {
		queues := NewQueueLimits()
		queues.In.Store(MinQueue)
		r.server.cfg.Env.Queues = queues
		client, service := r.joined(congested, congested)
		all, _ := r.all()
		atClient := all[0]
		seed := make([]byte, 1000)
		client.virtual(seed, false, HopOptions{})
		from := service.virtual(seed, true, HopOptions{})
		client.gate = make(chan struct{}) // the client's link is not read from now on
		for i := 0; i < 10*MinQueue && from.Send(cell.RelayDrop, 0, nil) == nil; i++ {
			synctest.Wait()
			if held := atClient.home.Load().Queued(); held > MinQueue {
				t.Fatalf("%d cells wait", held)
			}
		}
		close(client.gate)
		synctest.Wait()
		if client.lives() || service.lives() {
			t.Errorf("client: %v, service: %v", client.c.Err(), service.c.Err())
		}
		if err := atClient.Err(); !fault.Is(err, fault.Resource) {
			t.Error(err)
		}
		r.nothingLeft("bounded")
	})
}
