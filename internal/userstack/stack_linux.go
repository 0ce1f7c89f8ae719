package userstack

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/channel"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/isolation"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/socks"
)

const (
	nic = 1

	// What a connection can make this process hold in each direction. Packets take no time on
	// their way here, so more would not make it faster.
	bufferSize = 128 << 10
	// queued is how many packets for the device wait at most; TCP sends again what is lost.
	queued = 512
	// timeWait is short: no packet of an old connection is late on this way. So is finWait, after which
	// a connection goes that was closed, and whose end was acknowledged: gVisor waits for the
	// program's end once more if it had to send its own twice.
	timeWait, finWait = time.Second, time.Second
)

// Config says how a Stack works. All fields but Log are required.
type Config struct {
	Dialer     socks.Dialer
	Nameserver netip.Addr // IPv4: programs ask it for names
	MTU        int        // of the device
	MaxConns   int        // connections at a time, with those that are being opened; more are refused
	Log        *slog.Logger
}

// Stack is the other end of a TUN device. Close ends it.
type Stack struct {
	cfg    Config
	tun    *os.File
	link   *channel.Endpoint
	stack  *stack.Stack
	dns    *socks.Server
	ctx    context.Context
	cancel context.CancelFunc
	room   chan struct{}  // a place for each connection
	askers chan net.Conn  // for dns
	full   socks.Seldom   // when the log last said that there is none
	loops  sync.WaitGroup // all goroutines but gVisor's own

	closing sync.Once
}

// New starts to serve a TUN device, which it closes in the end.
func New(tun *os.File, cfg Config) (*Stack, error) {
	silence()
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Stack{cfg: cfg, tun: tun, room: make(chan struct{}, cfg.MaxConns), askers: make(chan net.Conn)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.link = channel.New(queued, uint32(cfg.MTU), "")
	s.stack = stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol, ipv6.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, udp.NewProtocol},
	})
	if err := s.prepare(); err != nil {
		s.stack.Destroy()
		s.cancel()
		tun.Close()
		return nil, err
	}
	s.run(s.read)
	s.run(s.write)
	return s, nil
}

// run starts a loop, whose panic ends the stack.
func (s *Stack) run(loop func()) {
	s.loops.Go(panics.Contain(s.cfg.Log, func(error) { s.stop() }, loop))
}

func (s *Stack) prepare() error {
	// The kernel's own limit of ICMP is for strangers. Here only the program can ask for it.
	s.stack.SetICMPLimit(rate.Inf)
	buffers := tcpip.TCPReceiveBufferSizeRangeOption{Min: 4 << 10, Default: bufferSize, Max: bufferSize}
	send := tcpip.TCPSendBufferSizeRangeOption{Min: 4 << 10, Default: bufferSize, Max: bufferSize}
	wait := tcpip.TCPTimeWaitTimeoutOption(timeWait)
	fin := tcpip.TCPLingerTimeoutOption(finWait)
	moderate := tcpip.TCPModerateReceiveBufferOption(false)
	for _, o := range []tcpip.SettableTransportProtocolOption{&buffers, &send, &wait, &fin, &moderate} {
		if err := s.stack.SetTransportProtocolOption(tcp.ProtocolNumber, o); err != nil {
			return wrong(err)
		}
	}
	if err := s.stack.CreateNIC(nic, s.link); err != nil {
		return wrong(err)
	}
	// The stack answers in the name of every address: promiscuous and spoofing.
	for _, set := range []func(tcpip.NICID, bool) tcpip.Error{s.stack.SetPromiscuousMode, s.stack.SetSpoofing} {
		if err := set(nic, true); err != nil {
			return wrong(err)
		}
	}
	s.stack.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: nic}, {Destination: header.IPv6EmptySubnet, NIC: nic}})
	forwarder := tcp.NewForwarder(s.stack, bufferSize, s.cfg.MaxConns, s.forward)
	s.stack.SetTransportProtocolHandler(tcp.ProtocolNumber, forwarder.HandlePacket)
	return s.serveDNS()
}

// serveDNS opens the name server.
func (s *Stack) serveDNS() error {
	at := tcpip.FullAddress{NIC: nic, Addr: tcpip.AddrFrom4(s.cfg.Nameserver.As4()), Port: dnsPort}
	own := tcpip.ProtocolAddress{Protocol: ipv4.ProtocolNumber, AddressWithPrefix: at.Addr.WithPrefix()}
	if err := s.stack.AddProtocolAddress(nic, own, stack.AddressProperties{}); err != nil {
		return wrong(err)
	}
	pc, err := gonet.DialUDP(s.stack, &at, nil, ipv4.ProtocolNumber)
	if err != nil {
		return fault.New(fault.Local, "user stack: %w", err)
	}
	l := &askers{ctx: s.ctx, conns: s.askers}
	s.dns = socks.NewDNS(socks.Config{Dialer: s.cfg.Dialer, Log: s.cfg.Log, Private: true, MaxConns: s.cfg.MaxConns})
	for _, serve := range []func() error{func() error { return s.dns.ServePacket(pc) }, func() error { return s.dns.Serve(l) }} {
		s.run(func() {
			if err := serve(); err != nil {
				s.cfg.Log.Error("the program's name server is closed", "err", err)
			}
		})
	}
	return nil
}

// forward opens the stream of a connection, and then the connection.
func (s *Stack) forward(r *tcp.ForwarderRequest) {
	decided := false
	decide := func(refused bool) {
		if !decided {
			decided = true
			r.Complete(refused)
		}
	}
	panics.Contain(s.cfg.Log, func(error) { decide(true) }, func() {
		defer decide(true)
		select {
		case s.room <- struct{}{}:
		default:
			s.tellFull()
			return
		}
		defer func() { <-s.room }()
		id := r.ID()
		if to, ok := netip.AddrFromSlice(id.LocalAddress.AsSlice()); ok && to == s.cfg.Nameserver && id.LocalPort == dnsPort {
			near, err := accept(r)
			decide(err != nil)
			if err == nil {
				s.answerNames(near)
			}
			return
		}
		far, err := s.dial(id)
		if err != nil {
			s.cfg.Log.Debug("a program's connection failed", "err", err)
			return
		}
		near, err := accept(r)
		decide(err != nil)
		if err != nil { // the program has gone
			far.Close()
			return
		}
		defer near.onReset(func() { go panics.Contain(s.cfg.Log, nil, func() { far.Close() })() })()
		socks.Splice(s.cfg.Log, near, far)
		near.left(s.ctx.Done()) // until then it has its place
	})()
}

// dial opens a stream to where a connection goes.
func (s *Stack) dial(id stack.TransportEndpointID) (net.Conn, error) {
	host, ok := netip.AddrFromSlice(id.LocalAddress.AsSlice())
	switch {
	case !ok || id.LocalPort == 0:
		return nil, fault.New(fault.Refused, "no address of a TCP connection")
	case host == s.cfg.Nameserver:
		return nil, fault.New(fault.Refused, "the name server has one port")
	}
	ctx, cancel := context.WithTimeout(s.ctx, socks.DefaultDialTimeout)
	defer cancel()
	return s.cfg.Dialer.Dial(ctx, socks.Request{Host: host.String(), Port: id.LocalPort, Key: isolation.Key{Listener: "exec"}})
}

func (s *Stack) tellFull() {
	if s.full.Now() {
		s.cfg.Log.Warn("too many connections of the program: new ones are refused; raise max-connections", "most", s.cfg.MaxConns)
	}
}

// Close ends all connections, and closes the device. It may be called again.
func (s *Stack) Close() { s.closing.Do(s.close) }

func (s *Stack) close() {
	s.stop()
	s.dns.Close()
	s.stack.Destroy()
	s.loops.Wait()
	s.link.Close()
	for range cap(s.room) { // every connection has ended
		s.room <- struct{}{}
	}
}

func (s *Stack) stop() {
	s.cancel()
	s.tun.Close()
}

func wrong(err tcpip.Error) error {
	return fault.New(fault.Local, "user stack: %w", errors.New(err.String()))
}
