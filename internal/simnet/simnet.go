// Package simnet runs relays inside a test, over loopback TCP or over a Network:
// the real link handshake, channels and circuit engine, without directories.
// Streams end at built-in services.
package simnet

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/flow"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/protover"
	"github.com/chivenet/chive/internal/stream"
)

// Protocols are the protocols that a simulated relay advertises.
const Protocols = "Link=4-5 LinkAuth=3 Relay=2-6 FlowCtrl=1-2 Conflux=1 Padding=2 ChivePQ=1-3,8"

// Relay is a simulated relay.
type Relay struct {
	Target   linkspec.Target
	Server   *circuit.Server
	Channels *channel.Manager
	Stats    *channel.Stats
	Circuits *circuit.ServerStats
	// Clients is the Env of the circuits that Circuit returns.
	Clients *circuit.Env

	ln    net.Listener
	serve func(s *stream.Stream)
	wg    sync.WaitGroup
}

// Options change a relay.
type Options struct {
	// Network is the network of the relay, where it has the address Addr; nil: TCP on
	// loopback, with a port that the kernel chooses.
	Network *Network
	Addr    netip.AddrPort
	// Memory counts what peers make the relay hold; nil: nothing is counted.
	Memory *account.Memory
	// Keys are the keys of the relay; nil: keys that no other relay has now.
	Keys *Keys
	// Streams handles the streams that end at the relay; nil: see Serve.
	Streams circuit.StreamHandler
	// Proto is advertised instead of Protocols.
	Proto string
	// NoPQ refuses post-quantum handshakes and rekeys, whatever is advertised.
	NoPQ bool
	// Serve handles the streams that end at the relay; nil echoes.
	Serve func(s *stream.Stream)
	Log   *slog.Logger
	// Queues bounds the queues of the relay; nil: the default.
	Queues *circuit.QueueLimits
	// Accepted is called with every circuit that a peer opens, before the engine does.
	Accepted func(*channel.CircuitEnd)
	// Onionskin is called before each handshake that a worker does.
	Onionskin func()
}

// New starts a relay; the test's cleanup stops it.
func New(t testing.TB, o Options) *Relay {
	t.Helper()
	log := o.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	keys := o.Keys
	if keys == nil {
		keys = borrowKeys(t)
	}
	listen := func() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }
	dial := Dial
	if o.Network != nil {
		listen = func() (net.Listener, error) { return o.Network.Listen(o.Addr) }
		dial = o.Network.Dialer(o.Addr.Addr())
	}
	ln, err := listen()
	check(t, err)
	proto, err := protover.Parse(cmp.Or(o.Proto, Protocols))
	check(t, err)
	addr := ln.Addr().(*net.TCPAddr).AddrPort()
	r := &Relay{
		Target:   linkspec.Target{RelayID: keys.Link.ID, Addrs: []netip.AddrPort{addr}, Ntor: keys.Onion.Public(), Proto: proto},
		Stats:    new(channel.Stats),
		Circuits: new(circuit.ServerStats),
		Clients:  &circuit.Env{Now: time.Now},
		ln:       ln,
		serve:    o.Serve,
	}
	if r.serve == nil {
		r.serve = Echo
	}
	link := &channel.LinkConfig{Memory: o.Memory, Identity: keys.Link, Addrs: []netip.Addr{addr.Addr()}}
	cfg := &channel.Config{Memory: o.Memory, Log: log, Now: time.Now, Stats: r.Stats}
	r.Channels = channel.NewManager(cfg, link, dial)
	params := flow.DefaultParams()
	pq := []string{proto.Versions(handshake.ProtoName)}
	if pq[0] == "" || o.NoPQ {
		pq = nil
	}
	streams := o.Streams
	if streams == nil {
		streams = r
	}
	r.Server = circuit.NewServer(circuit.ServerConfig{
		Env: &circuit.Env{Log: log, Now: time.Now, Queues: o.Queues, Padding: circuit.NewPaddingLimits(func() uint64 { return 0 }, &r.Circuits.Padding)},
		ID:  keys.Link.ID,
		Onion: func() []*handshake.NtorKeyPair {
			if o.Onionskin != nil {
				o.Onionskin()
			}
			return []*handshake.NtorKeyPair{keys.Onion}
		},
		Flow:     func() *flow.Params { return &params },
		Channels: r.Channels,
		Streams:  streams,
		PQ:       pq,
		Stats:    r.Circuits,
	})
	cfg.Accept = func(c *channel.CircuitEnd, cmd cell.Command, p []byte) {
		if o.Accepted != nil {
			o.Accepted(c)
		}
		r.Server.Accept(c, cmd, p)
	}
	r.wg.Go(func() { r.listen(link) })
	t.Cleanup(r.Stop)
	return r
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Dial connects over TCP.
func Dial(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", addr.String())
}

// Stop ends the relay as if its process had died.
func (r *Relay) Stop() {
	_ = r.ln.Close()
	r.Channels.Close()
	r.Server.Close()
	r.wg.Wait()
}

func (r *Relay) listen(link *channel.LinkConfig) {
	for {
		raw, err := r.ln.Accept()
		if err != nil {
			return
		}
		r.wg.Go(func() {
			l, err := channel.Accept(context.Background(), raw, link)
			if err != nil {
				return
			}
			_, _ = r.Channels.Adopt(l) // fails only while the relay is stopping
		})
	}
}

// HandleStream implements circuit.StreamHandler.
func (r *Relay) HandleStream(h *circuit.Hop, m cell.RelayMsg) error {
	name, half := m.Cmd.String(), false
	switch m.Cmd {
	case cell.RelayBegin:
		b, err := cell.ParseBegin(m.Data)
		if err != nil {
			return err
		}
		name, half = b.Host, b.Flags&cell.BeginHalfClose != 0
	case cell.RelayResolve:
		a := cell.Resolved{{Type: cell.AnswerIPv4, Addr: netip.MustParseAddr("192.0.2.1"), TTL: 60}}
		body, err := a.Append(nil)
		if err != nil {
			return err
		}
		return h.Send(cell.RelayResolved, m.Stream, body)
	}
	s, err := stream.Accept(h, m.Stream, name)
	if err != nil {
		return err
	}
	s.SetHalfClose(half)
	if name == "refused" {
		return s.Reject(cell.EndExitPolicy, netip.MustParseAddr("192.0.2.1"), 60)
	}
	if err := s.Connected(netip.MustParseAddr("192.0.2.1"), 60); err != nil {
		return nil // the circuit is closed
	}
	go r.serve(s)
	return nil
}

// Echo sends back all bytes that it receives, and ends when the stream ends.
func Echo(s *stream.Stream) {
	_, _ = s.WriteTo(s)
	_ = s.Close()
}
