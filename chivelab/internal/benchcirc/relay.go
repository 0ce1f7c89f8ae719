package benchcirc

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/cert"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/flow"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/protover"
	"github.com/chivenet/chive/internal/stream"
)

// relayProtocols is what the measurement's own relays advertise.
const relayProtocols = "Cons=2 Desc=2-3 DirCache=2 FlowCtrl=1-2 Link=4-5 LinkAuth=3 Microdesc=2-3 Relay=2-6 ChivePQ=1-3,8"

// description describes a relay process; it is the process's first line of output.
type description struct {
	Addr netip.AddrPort `json:"addr"`
	RSA  ident.RSAID    `json:"rsa"`
	Ed   [32]byte       `json:"ed"`
	Ntor [32]byte       `json:"ntor"`
	PID  int            `json:"pid"`
}

// order is a line of a relay process's input: documents to serve, or a
// question for its counters.
type order struct {
	Documents *documents `json:"documents,omitempty"`
}

// counters is the answer to every order.
type counters struct {
	Handshakes uint64 `json:"handshakes"`
	Nanos      uint64 `json:"nanos"` // computing time of the workers for them
}

// node is a minimal relay: the channels and the circuit engine of every Chive
// relay, and a service for directory documents.
type node struct {
	desc     description
	server   *circuit.Server
	channels *channel.Manager
	stats    circuit.ServerStats
	link     *channel.LinkConfig
	ln       net.Listener
	wg       sync.WaitGroup

	mu   sync.Mutex
	docs *documents // guarded by mu
}

// ServeRelay runs one of the measurement's relays: it listens on loopback with new
// keys, writes its description to out, answers orders from in, and ends when in
// ends or ctx is done. `chivelab bench circuit` runs it in processes of their own.
func ServeRelay(ctx context.Context, in io.Reader, out io.Writer, pid int) error {
	n, err := newNode(pid)
	if err != nil {
		return err
	}
	defer n.close()
	stop := context.AfterFunc(ctx, func() { n.ln.Close() })
	defer stop()
	enc, dec := json.NewEncoder(out), json.NewDecoder(in)
	if err := enc.Encode(&n.desc); err != nil {
		return fault.Wrap(fault.Local, err)
	}
	for {
		var o order
		if err := dec.Decode(&o); errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) {
			return nil
		} else if err != nil {
			return fault.New(fault.Local, "relay: orders: %w", err)
		}
		if o.Documents != nil {
			n.mu.Lock()
			n.docs = o.Documents
			n.mu.Unlock()
		}
		if err := enc.Encode(counters{n.stats.Onionskins.Load(), n.stats.OnionNanos.Load()}); err != nil {
			return fault.Wrap(fault.Local, err)
		}
	}
}

func newNode(pid int) (*node, error) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 1024) // tor-spec: a relay's identity key
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	var keys [2]*cert.ExpandedKey
	for i := range keys {
		if keys[i], err = cert.GenerateExpanded(rand.Reader); err != nil {
			return nil, err
		}
	}
	now := time.Now()
	relayKeys, err := channel.NewRelayIdentity(rsaKey, keys[0], keys[1], now.Add(30*24*time.Hour)).NewRelayKeys(rand.Reader, now)
	if err != nil {
		return nil, err
	}
	onion, err := handshake.GenerateNtorKeyPair(rand.Reader)
	if err != nil {
		return nil, err
	}
	proto, err := protover.Parse(relayProtocols)
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fault.New(fault.Network, "relay: %w", err)
	}
	addr := ln.Addr().(*net.TCPAddr).AddrPort()
	n := &node{
		ln:   ln,
		link: &channel.LinkConfig{Identity: relayKeys, Addrs: []netip.Addr{addr.Addr()}},
		desc: description{Addr: addr, RSA: relayKeys.ID.RSA, Ed: relayKeys.ID.Ed, Ntor: onion.Public(), PID: pid},
	}
	log := slog.New(slog.DiscardHandler)
	cfg := &channel.Config{Log: log, Now: time.Now, Stats: new(channel.Stats)}
	n.channels = channel.NewManager(cfg, n.link, dialTCP)
	params := flow.DefaultParams()
	n.server = circuit.NewServer(circuit.ServerConfig{
		Env: &circuit.Env{Log: log, Now: time.Now}, ID: relayKeys.ID,
		Onion:    func() []*handshake.NtorKeyPair { return []*handshake.NtorKeyPair{onion} },
		Flow:     func() *flow.Params { return &params },
		Channels: n.channels, Streams: n, Stats: &n.stats,
		AllowTarget: func(*linkspec.Target) error { return nil },
		PQ:          []string{proto.Versions(handshake.ProtoName)},
	})
	cfg.Accept = n.server.Accept
	n.wg.Go(n.listen)
	return n, nil
}

func dialTCP(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", addr.String())
}

func (n *node) close() {
	n.ln.Close()
	n.channels.Close()
	n.server.Close()
	n.wg.Wait()
}

func (n *node) listen() {
	for {
		raw, err := n.ln.Accept()
		if err != nil {
			return
		}
		n.wg.Go(func() {
			l, err := channel.Accept(context.Background(), raw, n.link)
			if err != nil {
				return // the client reports it
			}
			_, _ = n.channels.Adopt(l) // fails only while the relay is stopping
		})
	}
}

// HandleStream implements circuit.StreamHandler: directory streams only.
func (n *node) HandleStream(h *circuit.Hop, m cell.RelayMsg) error {
	s, err := stream.Accept(h, m.Stream, m.Cmd.String())
	if err != nil {
		return err
	}
	n.mu.Lock()
	docs := n.docs
	n.mu.Unlock()
	if m.Cmd != cell.RelayBeginDir || docs == nil {
		return s.Reject(cell.EndExitPolicy, netip.AddrFrom4([4]byte{}), 0)
	}
	if err := s.Connected(netip.Addr{}, 0); err != nil {
		return nil // the circuit is closed
	}
	n.wg.Go(func() {
		defer s.Close()
		docs.serve(s)
	})
	return nil
}
