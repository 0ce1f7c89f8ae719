package circuit

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/ident"
)

// spliced returns a client's and an onion service's circuits, each without a hop,
// between which a rendezvous point would move the cells: here the link does.
func (r *rig) spliced() (client, service *Circuit) {
	r.t.Helper()
	r.mute = true
	client, service = newCircuit(r.env(), fromRelay), newCircuit(r.env(), fromRelay)
	home, err := r.client.Open(homeSide{client}, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	client.setHome(home)
	if err := home.SendControl(cell.CmdCreateFast, make([]byte, 20)); err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
	opened := r.atNext()
	far := opened[len(opened)-1].circ
	service.setHome(far)
	far.SetReceiver(homeSide{service})
	return client, service
}

// virtualKeys returns the two ends' copies of one hs-ntor's key material.
func (r *rig) virtualKeys() (client, service handshake.KeyStream) {
	r.t.Helper()
	pair, err := handshake.GenerateNtorKeyPair(rand.Reader)
	if err != nil {
		r.t.Fatal(err)
	}
	svc := handshake.HSService{Enc: pair.Public(), Auth: ident.Ed25519ID{1}, Subcredential: [32]byte{2}}
	cs, err := handshake.HSNtorClient(rand.Reader, svc)
	if err != nil {
		r.t.Fatal(err)
	}
	header := []byte("header")
	ss, _, err := handshake.HSNtorOpen(pair, svc.Auth, [][32]byte{svc.Subcredential}, header, cs.Introduce(header, make([]byte, 100)))
	if err != nil {
		r.t.Fatal(err)
	}
	reply, service, err := ss.Reply(rand.Reader)
	if err != nil {
		r.t.Fatal(err)
	}
	if client, err = cs.Finish(append(reply, make([]byte, 84)...)); err != nil {
		r.t.Fatal(err)
	}
	return client, service
}

// virtually is spliced with the virtual hop at both ends.
func (r *rig) virtually(inc int, streams StreamHandler) (client, service *Hop) {
	r.t.Helper()
	return r.virtuallyOn(VirtualHop{SendmeInc: inc}, VirtualHop{SendmeInc: inc}, streams)
}

// virtuallyOn is virtually with what either end believes to be agreed.
func (r *rig) virtuallyOn(atClient, atService VirtualHop, streams StreamHandler) (client, service *Hop) {
	r.t.Helper()
	c, s := r.spliced()
	atClient.Keys, atService.Keys = r.virtualKeys()
	client, err := c.AddVirtualHop(atClient)
	if err != nil {
		r.t.Fatal(err)
	}
	atService.Service, atService.Streams = true, streams
	if service, err = s.AddVirtualHop(atService); err != nil {
		r.t.Fatal(err)
	}
	return client, service
}

// taker accepts every stream and keeps what comes for it.
type taker struct {
	h     *Hop
	ports []uint16
	got   bytes.Buffer
	cmds  []cell.RelayCommand
	end   error
}

func (k *taker) HandleStream(h *Hop, m cell.RelayMsg) error {
	b, err := cell.ParseOnionBegin(m.Data)
	if err != nil {
		return err
	}
	k.h, k.ports = h, append(k.ports, b.Port)
	return h.AcceptStream(m.Stream, k)
}

func (k *taker) HandleMessage(m cell.RelayMsg, _ time.Time) error {
	if m.Cmd == cell.RelayData {
		k.got.Write(m.Data)
	} else {
		k.cmds = append(k.cmds, m.Cmd)
	}
	return nil
}
func (k *taker) Flush()                       {}
func (k *taker) HandleCircuitClose(err error) { k.end = err }

// sendAll sends b on a stream as the hop gives credit.
func sendAll(t *testing.T, h *Hop, id uint16, b []byte) {
	t.Helper()
	w := NewWaiter()
	for len(b) > 0 {
		n, _, err := h.SendData(w, id, b, batchCells)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			<-w.Wait()
		}
		b = b[n:]
	}
	synctest.Wait()
}

func TestVirtualHop(t *testing.T) {
	for _, v := range []VirtualHop{{}, {SendmeInc: 31}, {SendmeInc: 31, CGO: true}} {
		t.Run(fmt.Sprintf("increment %d, CGO %v", v.SendmeInc, v.CGO), func(t *testing.T) {
			onRig(t, func(r *rig) {
				service := new(taker)
				ch, sh := r.virtuallyOn(v, v, service)
				layer := map[bool]string{false: "tor1-sha3", true: "cgo"}[v.CGO]
				if i := ch.Info(); i.Layer != layer || i.Handshake != "hs-ntor" || !i.Client || i.Congestion != (v.SendmeInc != 0) {
					t.Errorf("%+v", i)
				}
				if sh.Info().Client {
					t.Error("the service is a client on its virtual hop")
				}
				client := new(taker)
				var id uint16
				if err := ch.OpenStream(func(n uint16) StreamReceiver { id = n; return client }); err != nil {
					t.Fatal(err)
				}
				b, err := cell.NewOnionBegin(80)
				if err != nil {
					t.Fatal(err)
				}
				if err := ch.Send(cell.RelayBegin, id, b.Append(nil)); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if len(service.ports) != 1 || service.ports[0] != 80 || service.h != sh {
					t.Fatalf("ports %v, %v", service.ports, sh.Circuit().Err())
				}
				if err := sh.Send(cell.RelayConnected, id, nil); err != nil {
					t.Fatal(err)
				}
				up, down := make([]byte, 700_000), make([]byte, 1_500_000)
				_, _ = rand.Read(up)
				_, _ = rand.Read(down)
				sendAll(t, ch, id, up)
				sendAll(t, sh, id, down)
				if sha256.Sum256(service.got.Bytes()) != sha256.Sum256(up) || sha256.Sum256(client.got.Bytes()) != sha256.Sum256(down) {
					t.Errorf("%d and %d bytes came, not those that were sent", service.got.Len(), client.got.Len())
				}
				if len(client.cmds) != 1 || client.cmds[0] != cell.RelayConnected {
					t.Errorf("the client's stream got %v", client.cmds)
				}
				ch.Circuit().Close(cell.DestroyNone, fault.New(fault.Closed, "done"))
				synctest.Wait()
				if service.end == nil || client.end == nil {
					t.Error("a stream outlived its circuit")
				}
			})
		})
	}
}

// TestVirtualCGOAlone: no end makes CGO without congestion control.
func TestVirtualCGOAlone(t *testing.T) {
	onRig(t, func(r *rig) {
		c, s := r.spliced()
		ck, sk := r.virtualKeys()
		for _, err := range []error{
			second(c.AddVirtualHop(VirtualHop{Keys: ck, CGO: true})),
			second(s.AddVirtualHop(VirtualHop{Keys: sk, Service: true, CGO: true})),
		} {
			if err == nil || !strings.Contains(err.Error(), "not on congestion control") {
				t.Error(err)
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }

// TestVirtualLayersDiffer: if the ends have other layers, the first cell ends the
// circuit, and nothing of it is delivered.
func TestVirtualLayersDiffer(t *testing.T) {
	old, cgo := VirtualHop{SendmeInc: 31}, VirtualHop{SendmeInc: 31, CGO: true}
	for _, v := range [][2]VirtualHop{{old, cgo}, {cgo, old}} {
		onRig(t, func(r *rig) {
			service := new(taker)
			ch, sh := r.virtuallyOn(v[0], v[1], service)
			if err := ch.Send(cell.RelayBegin, 7, []byte(":80\x00")); err != nil {
				t.Fatal(err)
			}
			r.refused("BEGIN", sh.Circuit(), "a cell that no hop recognises")
			if len(service.ports) != 0 {
				t.Errorf("ports %v", service.ports)
			}
			ch, sh = r.virtuallyOn(v[0], v[1], service)
			if err := sh.Send(cell.RelayDrop, 0, nil); err != nil {
				t.Fatal(err)
			}
			r.refused("DROP", ch.Circuit(), "a cell that no hop recognises")
		})
	}
}

// TestVirtualHopViolations: on a virtual hop only streams are spoken of, and only
// the client opens them.
func TestVirtualHopViolations(t *testing.T) {
	for _, v := range []VirtualHop{{SendmeInc: 31}, {SendmeInc: 31, CGO: true}} {
		violateVirtual(t, v)
	}
}

func violateVirtual(t *testing.T, v VirtualHop) {
	onRig(t, func(r *rig) {
		for i := range 256 {
			cmd := cell.RelayCommand(i)
			if !cmd.Known() || cmd == cell.RelayDrop || cmd == cell.RelaySendme {
				continue
			}
			var stream uint16
			if cmd.Has(cell.OnStream) {
				stream = 7
			}
			ch, sh := r.virtuallyOn(v, v, nil)
			if err := sh.Send(cmd, stream, nil); err != nil {
				t.Fatal(err)
			}
			r.refused(cmd.String()+" to the client", ch.Circuit(), cmd.String())
			if cmd == cell.RelayBegin {
				continue
			}
			ch, sh = r.virtuallyOn(v, v, nil)
			if err := ch.Send(cmd, stream, nil); err != nil {
				t.Fatal(err)
			}
			r.refused(cmd.String()+" to the service", sh.Circuit(), cmd.String())
		}
	})
}

// TestNoStreamHandler: a service without one refuses streams, and keeps the circuit.
func TestNoStreamHandler(t *testing.T) {
	onRig(t, func(r *rig) {
		ch, sh := r.virtually(0, nil)
		client := new(taker)
		if err := ch.OpenStream(func(id uint16) StreamReceiver {
			return client
		}); err != nil {
			t.Fatal(err)
		}
		if err := ch.Send(cell.RelayBegin, ch.nextID, []byte(":80\x00")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(client.cmds) != 1 || client.cmds[0] != cell.RelayEnd || sh.Circuit().Err() != nil {
			t.Errorf("%v, %v", client.cmds, sh.Circuit().Err())
		}
		// The client may have sent data with its BEGIN.
		for _, cmd := range []cell.RelayCommand{cell.RelayData, cell.RelayBegin, cell.RelayData} {
			if err := ch.Send(cmd, ch.nextID, []byte(":80\x00")); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if err := sh.Circuit().Err(); err != nil || len(client.cmds) != 2 {
			t.Errorf("early data: %v, %v", client.cmds, err)
		}
	})
}

// TestUnasked: messages that a client takes unasked go to their handler, one that
// somebody waits for does not, and without a handler they are violations.
func TestUnasked(t *testing.T) {
	onRig(t, func(r *rig) {
		open := func() (*Hop, *Hop) {
			c := r.circuit(congested, nil)
			c.handle = fromRelay
			return c.Last(), r.last().Hops()[0]
		}
		ch, relay := open()
		var got []string
		ch.Handle(cell.RelayIntroduce2, func(m cell.RelayMsg) error {
			got = append(got, string(m.Data))
			if string(m.Data) == "bad" {
				return fault.New(fault.Protocol, "this one is bad")
			}
			return nil
		})
		e, err := ch.Expect(cell.RelayIntroduce2)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []string{"awaited", "first", "second"} {
			if err := relay.Send(cell.RelayIntroduce2, 0, []byte(s)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if _, b, err := e.Wait(r.t.Context()); err != nil || string(b) != "awaited" {
			t.Errorf("%q %v", b, err)
		}
		if s := strings.Join(got, " "); s != "first second" {
			t.Errorf("the handler got %q", s)
		}
		if err := relay.Send(cell.RelayIntroduce2, 0, []byte("bad")); err != nil {
			t.Fatal(err)
		}
		r.refused("a bad one", ch.Circuit(), "this one is bad")
		for name, prepare := range map[string]func(*Hop){
			"no handler":      func(*Hop) {},
			"another handler": func(h *Hop) { h.Handle(cell.RelayRendezvous2, func(cell.RelayMsg) error { return nil }) },
			"handler removed": func(h *Hop) {
				h.Handle(cell.RelayIntroduce2, func(cell.RelayMsg) error { return nil })
				h.Handle(cell.RelayIntroduce2, nil)
			},
		} {
			ch, relay := open()
			prepare(ch)
			if err := relay.Send(cell.RelayIntroduce2, 0, nil); err != nil {
				t.Fatal(err)
			}
			r.refused(name, ch.Circuit(), "unexpected INTRODUCE2 from hop 1")
		}
	})
}
