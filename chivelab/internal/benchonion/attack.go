package benchonion

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"log/slog"
	mathrand "math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/lab/proc"
	"github.com/chivenet/chive/internal/linkspec"
)

// AttackOrder tells an attacker which service to flood with introductions. They are good
// ones, so that the service builds a circuit for each, and nobody waits at its end.
type AttackOrder struct {
	Entries       []Hop         `json:"entries"` // first hops, in turns
	Points        []Point       `json:"points"`
	Subcredential [32]byte      `json:"subcredential"`
	Rendezvous    []Hop         `json:"rendezvous"` // where the service has to go
	Rate          int           `json:"rate"`       // introductions per second, at most
	Time          time.Duration `json:"time_ns"`
}

// Hop is a relay.
type Hop struct {
	RSA  ident.RSAID     `json:"rsa"`
	Ed   ident.Ed25519ID `json:"ed"`
	Ntor ident.X25519Key `json:"ntor"`
	Addr netip.AddrPort  `json:"addr"`
}

// Point is an introduction point.
type Point struct {
	Hop
	Auth ident.Ed25519ID `json:"auth"`
	Enc  ident.X25519Key `json:"enc"`
}

func hopOf(t linkspec.Target) Hop {
	h := Hop{RSA: t.RSA, Ed: t.Ed, Ntor: t.Ntor}
	if len(t.Addrs) > 0 {
		h.Addr = t.Addrs[0]
	}
	return h
}

func (h *Hop) target() linkspec.Target {
	return linkspec.Target{RelayID: ident.RelayID{RSA: h.RSA, Ed: h.Ed}, Addrs: []netip.AddrPort{h.Addr}, Ntor: h.Ntor}
}

// check refuses addresses outside this machine: a bench attacks only loopback.
func (o *AttackOrder) check() error {
	all := append([]Hop(nil), o.Entries...)
	for _, p := range o.Points {
		all = append(all, p.Hop)
	}
	for _, h := range append(all, o.Rendezvous...) {
		if !h.Addr.Addr().IsLoopback() {
			return fault.New(fault.Config, "attack: only relays on loopback can be attacked")
		}
	}
	if len(o.Entries) == 0 || len(o.Points) == 0 || len(o.Rendezvous) == 0 || o.Rate < 1 || o.Time <= 0 || o.Time > maxAttack {
		return fault.New(fault.Config, "attack: an order needs relays, a rate, and a time of at most %v", maxAttack)
	}
	return nil
}

const (
	maxAttack = 5 * time.Minute
	// attackers is how many circuits an attacker builds at the same time.
	attackers = 64
	// attackWait bounds one introduction.
	attackWait = 10 * time.Second
)

// AttackCounts says what an attacker did.
type AttackCounts struct {
	Sent    int64   `json:"sent"`    // introductions
	Taken   int64   `json:"taken"`   // those that an introduction point has passed on
	Refused int64   `json:"refused"` // those that it has refused
	Failed  int64   `json:"failed"`  // circuits that were not built, and answers that did not come
	CPU     float64 `json:"cpu_s"`
}

// Attack reads an order from in, prints "ready" on out, attacks until its time is over,
// and prints its counts on words.
func Attack(ctx context.Context, in io.Reader, out, words io.Writer) error {
	var o AttackOrder
	if err := json.NewDecoder(in).Decode(&o); err != nil {
		return fault.New(fault.Config, "attack: the order: %w", err)
	}
	if err := o.check(); err != nil {
		return err
	}
	if _, err := io.WriteString(out, "ready\n"); err != nil {
		return fault.Wrap(fault.Local, err)
	}
	c := o.carryOut(ctx)
	cpu, err := proc.CPU(os.Getpid())
	if err != nil {
		return err
	}
	c.CPU = cpu.Seconds()
	return fault.Wrap(fault.Local, json.NewEncoder(words).Encode(c))
}

func (o *AttackOrder) carryOut(ctx context.Context) (c AttackCounts) {
	ctx, cancel := context.WithTimeout(ctx, o.Time)
	defer cancel()
	log := slog.New(slog.DiscardHandler)
	a := attack{AttackOrder: o, env: &circuit.Env{Log: log, Now: time.Now}}
	a.links = channel.NewManager(&channel.Config{Log: log, Now: time.Now}, &channel.LinkConfig{}, func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", to.String())
	})
	defer a.links.Close()
	began := time.Now()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range attackers {
		wg.Go(func() {
			for ctx.Err() == nil {
				n := next.Add(1) - 1
				due := began.Add(time.Duration(n) * time.Second / time.Duration(o.Rate))
				select {
				case <-time.After(time.Until(due)):
				case <-ctx.Done():
					return
				}
				if err := a.introduce(ctx, int(n)); err != nil && ctx.Err() == nil {
					a.failed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return AttackCounts{Sent: a.sent.Load(), Taken: a.taken.Load(), Refused: a.refused.Load(), Failed: a.failed.Load()}
}

// attack is a flood in progress.
type attack struct {
	*AttackOrder
	env                          *circuit.Env
	links                        *channel.Manager
	sent, taken, refused, failed atomic.Int64
}

// introduce builds a circuit of two hops, because introduction points refuse those of
// one, and introduces a client who waits nowhere.
func (a *attack) introduce(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, attackWait)
	defer cancel()
	p := &a.Points[n%len(a.Points)]
	entry := a.Entries[n%len(a.Entries)].target()
	if entry.RSA == p.RSA {
		entry = a.Entries[(n+1)%len(a.Entries)].target()
	}
	ch, err := a.links.Get(ctx, entry)
	if err != nil {
		return err
	}
	c, err := circuit.Create(ctx, a.env, ch, entry, circuit.HopOptions{Handshake: handshake.Fast})
	if err != nil {
		return err
	}
	defer c.Close(cell.DestroyNone, fault.New(fault.Closed, "attacked"))
	if err := c.Extend(ctx, p.target(), circuit.HopOptions{}); err != nil {
		return err
	}
	body, err := a.body(p)
	if err != nil {
		return err
	}
	want, err := c.Last().Expect(cell.RelayIntroduceAck)
	if err != nil {
		return err
	}
	if err := c.Last().Send(cell.RelayIntroduce1, 0, body); err != nil {
		want.Cancel()
		return err
	}
	a.sent.Add(1)
	_, answer, err := want.Wait(ctx)
	if err != nil {
		return err
	}
	ack, err := cell.ParseIntroduceAck(answer)
	if err != nil {
		return err
	}
	if ack.Status == cell.IntroduceOK {
		a.taken.Add(1)
	} else {
		a.refused.Add(1)
	}
	return nil
}

// body returns an INTRODUCE1 without effort.
func (a *attack) body(p *Point) ([]byte, error) {
	hs, err := handshake.HSNtorClient(rand.Reader, handshake.HSService{Enc: p.Enc, Auth: p.Auth, Subcredential: a.Subcredential})
	if err != nil {
		return nil, err
	}
	at := a.Rendezvous[mathrand.IntN(len(a.Rendezvous))].target()
	plain := cell.IntroducePlaintext{Onion: at.Ntor, Specs: linkspec.Append(nil, at.Specs())}
	_, _ = rand.Read(plain.Cookie[:]) // never fails (crypto/rand)
	m := cell.Introduce{AuthKey: p.Auth}
	header := m.AppendHeader(nil)
	text := plain.Append(nil)
	text = append(text, make([]byte, max(0, 310-len(header)-handshake.HSIntroOverhead-len(text)))...)
	return append(header, hs.Introduce(header, text)...), nil
}
