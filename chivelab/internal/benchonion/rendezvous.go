package benchonion

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/flow"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/lab/measure"
	"github.com/chivenet/chive/internal/lab/proc"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/netfile"
	"github.com/chivenet/chive/internal/stream"
)

// Rendezvous is the work of a relay that is rendezvous point and nothing else: the
// bench's own circuits meet there, each over one more relay of the same program.
type Rendezvous struct {
	Relay   string  `json:"relay"`
	Bytes   int64   `json:"bytes"` // service to client
	MBps    float64 `json:"mb_per_s"`
	PerCell float64 `json:"us_per_cell"` // processor time for each measure.CellData bytes
}

// cornerRelay is a relay that circuits are led over.
type cornerRelay struct {
	nickname string
	pid      int
}

// rendezvous measures C tor's rendezvous point and Chive's, in turns.
func (s *site) rendezvous(ctx context.Context) error {
	if s.Relayed == 0 {
		return nil
	}
	s.Progress("rendezvous points")
	kinds := []struct {
		name   string
		n      *network
		relays [3]cornerRelay // the client's, the service's, and the rendezvous point
	}{{name: "C tor", n: &s.tor.network}, {name: "Chive", n: &s.chive.network}}
	for i := range 3 {
		t := s.tor.tor.Node(fmt.Sprint("relay", i))
		c := s.chive.lab.Node(fmt.Sprint("chiverelay", i))
		kinds[0].relays[i] = cornerRelay{t.Name, t.PID()}
		kinds[1].relays[i] = cornerRelay{c.Name, c.PID()}
	}
	all := make([][]Rendezvous, len(kinds))
	for range max(1, s.Measure.Rounds) {
		for i, k := range kinds {
			got, err := s.meet(ctx, k.n, k.relays)
			if err != nil {
				return fault.New(fault.KindOf(err), "%s's rendezvous point: %w", k.name, err)
			}
			got.Relay = k.name
			all[i] = append(all[i], *got)
		}
	}
	for _, one := range all {
		slices.SortFunc(one, func(a, b Rendezvous) int { return int(1e6 * (a.PerCell - b.PerCell)) })
		s.out.Rendezvous = append(s.out.Rendezvous, one[len(one)/2])
	}
	return nil
}

// meet moves bytes over a rendezvous at the third relay.
func (s *site) meet(ctx context.Context, n *network, relays [3]cornerRelay) (*Rendezvous, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	targets, err := targetsOf(ctx, n, relays)
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.DiscardHandler)
	env := &circuit.Env{Log: log, Now: time.Now}
	m := channel.NewManager(&channel.Config{Log: log, Now: time.Now}, &channel.LinkConfig{}, func(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", a.String())
	})
	defer m.Close()
	params := flow.DefaultParams()
	var circs [2]*circuit.Circuit
	for i := range circs {
		ch, err := m.Get(ctx, targets[i])
		if err != nil {
			return nil, err
		}
		circs[i], err = circuit.Build(ctx, env, ch, &circuit.Route{Targets: []linkspec.Target{targets[i], targets[2]},
			Options: circuit.HopOptions{Congestion: true, CGO: true, Flow: &params, Path: flow.PathOnion}})
		if err != nil {
			return nil, err
		}
		defer circs[i].Close(0, fault.New(fault.Closed, "measured"))
	}
	hop, err := join(ctx, circs[0], circs[1], &params)
	if err != nil {
		return nil, err
	}
	st, err := stream.BeginOnion(hop, "bench", 1)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	if err := st.WaitOpen(ctx); err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { st.Close() })()
	if _, err := io.CopyN(io.Discard, st, s.Relayed/4); err != nil { // to warm up
		return nil, fault.Wrap(fault.Network, err)
	}
	before, err := proc.CPU(relays[2].pid)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if _, err := io.CopyN(io.Discard, st, s.Relayed); err != nil {
		return nil, fault.Wrap(fault.Network, err)
	}
	took := time.Since(began)
	after, err := proc.CPU(relays[2].pid)
	if err != nil {
		return nil, err
	}
	return &Rendezvous{Bytes: s.Relayed, MBps: float64(s.Relayed) / 1e6 / took.Seconds(),
		PerCell: float64(after-before) / float64(time.Microsecond) / (float64(s.Relayed) / measure.CellData)}, nil
}

// join joins two circuits that end at the same relay. It returns the client's virtual
// hop; the service's end sends bytes on every stream without end.
func join(ctx context.Context, client, service *circuit.Circuit, params *flow.Params) (*circuit.Hop, error) {
	point := client.Last()
	var cookie [cell.CookieLen]byte
	_, _ = rand.Read(cookie[:]) // never fails (crypto/rand)
	want, err := point.Expect(cell.RelayRendezvousEstablished)
	if err != nil {
		return nil, err
	}
	ask := cell.EstablishRendezvous{Cookie: cookie}
	if err := point.Send(cell.RelayEstablishRendezvous, 0, ask.Append(nil)); err != nil {
		want.Cancel()
		return nil, err
	}
	if _, _, err := want.Wait(ctx); err != nil {
		return nil, err
	}
	// The introduction takes place here: no introduction point is measured.
	enc, err := handshake.GenerateNtorKeyPair(rand.Reader)
	if err != nil {
		return nil, err
	}
	svc := handshake.HSService{Enc: enc.Public(), Auth: ident.Ed25519ID{1}, Subcredential: [32]byte{2}}
	mine, err := handshake.HSNtorClient(rand.Reader, svc)
	if err != nil {
		return nil, err
	}
	theirs, _, err := handshake.HSNtorOpen(enc, svc.Auth, [][32]byte{svc.Subcredential}, nil, mine.Introduce(nil, make([]byte, 64)))
	if err != nil {
		return nil, err
	}
	reply, keys, err := theirs.Reply(rand.Reader)
	if err != nil {
		return nil, err
	}
	terms := circuit.VirtualHop{Flow: params, Path: flow.PathOnion, SendmeInc: params.SendmeInc, CGO: true}
	joined := make(chan *circuit.Hop, 1)
	point.Handle(cell.RelayRendezvous2, func(m cell.RelayMsg) error {
		v := terms
		var err error
		if v.Keys, err = mine.Finish(m.Data); err != nil {
			return err
		}
		hop, err := client.AddVirtualHop(v)
		if err == nil {
			joined <- hop
		}
		return err
	})
	at, v := service.Last(), terms
	v.Keys, v.Service, v.Streams = keys, true, fountain{}
	if _, err := service.AddVirtualHop(v); err != nil {
		return nil, err
	}
	msg := cell.Rendezvous1{Cookie: cookie, Handshake: reply}
	if err := at.Send(cell.RelayRendezvous1, 0, msg.Append(nil)); err != nil {
		return nil, err
	}
	select {
	case hop := <-joined:
		return hop, nil
	case <-client.Done():
		return nil, client.Err()
	case <-ctx.Done():
		return nil, fault.New(fault.Timeout, "rendezvous: %w", context.Cause(ctx))
	}
}

// fountain sends zeros on every stream until it ends.
type fountain struct{}

// HandleStream implements circuit.StreamHandler.
func (fountain) HandleStream(h *circuit.Hop, m cell.RelayMsg) error {
	s, err := stream.Accept(h, m.Stream, "bench")
	if err != nil {
		return err
	}
	if err := s.Connected(netip.Addr{}, 0); err != nil {
		return err
	}
	go func() {
		defer s.Close()
		for buf := make([]byte, 64<<10); ; {
			if _, err := s.Write(buf); err != nil {
				return // the client has enough
			}
		}
	}()
	return nil
}

// maxDescriptors bounds the answer of an authority, in bytes.
const maxDescriptors = 4 << 20

// targetsOf learns from an authority how to reach relays.
func targetsOf(ctx context.Context, n *network, relays [3]cornerRelay) (out [3]linkspec.Target, err error) {
	text, err := os.ReadFile(n.file)
	if err != nil {
		return out, fault.Wrap(fault.Local, err)
	}
	description, err := netfile.Parse(n.file, text)
	if err != nil {
		return out, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s/tor/server/all", description.Authorities[0].DirPort), nil)
	if err != nil {
		return out, fault.Wrap(fault.Local, err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}
	res, err := client.Do(req)
	if err != nil {
		return out, fault.Wrap(fault.Network, err)
	}
	defer res.Body.Close()
	docs, err := io.ReadAll(io.LimitReader(res.Body, maxDescriptors))
	if err != nil {
		return out, fault.Wrap(fault.Network, err)
	}
	found := 0
	netdoc.ParseRouterDescs(docs, time.Now(), func(d *netdoc.RouterDesc, bad error) {
		if bad != nil {
			return // perhaps not one of the relays that count
		}
		for i, r := range relays {
			if d.Nickname != r.nickname {
				continue
			}
			t := &out[i]
			t.RSA, t.Ed, t.Ntor, t.Proto = d.RSA, d.Ed, d.Ntor, d.Protocols
			t.Addrs = []netip.AddrPort{netip.AddrPortFrom(d.Addr, d.ORPort)}
			found++
		}
	})
	if found != len(relays) {
		return out, fault.New(fault.Directory, "the authority has descriptors of %d relays of %d", found, len(relays))
	}
	return out, nil
}
