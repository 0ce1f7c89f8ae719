package linkstack

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/log"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/channel"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/icmp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"

	"github.com/chivenet/chive/chivelab/internal/links"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics"
)

const (
	nic = 1
	// bufferSize is the most that a connection has in a direction: enough for 100 Mbit/s over 300 ms.
	bufferSize = 4 << 20
	// queued is how many packets wait between the stack and the link, which takes them at once.
	queued = 4096
)

// silence keeps gVisor from writing to standard error.
var silence = sync.OnceFunc(func() { log.SetTarget(&log.Writer{Next: io.Discard}) })

// Host is a host with one IPv4 address. Close ends it.
type Host struct {
	addr   netip.Addr
	stack  *stack.Stack
	link   *channel.Endpoint
	port   *links.Port
	acks   *acks
	ctx    context.Context
	cancel context.CancelFunc
	loop   sync.WaitGroup
	once   sync.Once
}

// Attach makes a host at an IPv4 address.
func Attach(n *links.Net, addr netip.Addr, access links.Access) (*Host, error) {
	silence()
	if !addr.Is4() {
		return nil, fault.New(fault.Config, "%v is no IPv4 address", addr)
	}
	h := &Host{addr: addr, link: channel.New(queued, uint32(access.MTU()), "")}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.stack = stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, udp.NewProtocol, icmp.NewProtocol4},
	})
	err := h.prepare()
	if err == nil {
		h.port, err = n.Attach(addr, access, h.receive)
	}
	if err != nil {
		h.cancel()
		h.stack.Destroy()
		return nil, err
	}
	h.acks = newAcks(access.MTU(), h.port.Send)
	h.loop.Go(panics.Contain(nil, func(error) { h.cancel() }, h.send))
	return h, nil
}

func (h *Host) prepare() error {
	buffers := tcpip.TCPReceiveBufferSizeRangeOption{Min: 4 << 10, Default: 1 << 20, Max: bufferSize}
	send := tcpip.TCPSendBufferSizeRangeOption{Min: 4 << 10, Default: 1 << 20, Max: bufferSize}
	moderate := tcpip.TCPModerateReceiveBufferOption(true)
	sack := tcpip.TCPSACKEnabled(true) // as all systems have
	congestion := tcpip.CongestionControlOption(links.Congestion)
	for _, o := range []tcpip.SettableTransportProtocolOption{&buffers, &send, &moderate, &sack, &congestion} {
		if err := h.stack.SetTransportProtocolOption(tcp.ProtocolNumber, o); err != nil {
			return wrong(err)
		}
	}
	if err := h.stack.CreateNIC(nic, h.link); err != nil {
		return wrong(err)
	}
	own := tcpip.ProtocolAddress{Protocol: ipv4.ProtocolNumber, AddressWithPrefix: tcpip.AddrFrom4(h.addr.As4()).WithPrefix()}
	if err := h.stack.AddProtocolAddress(nic, own, stack.AddressProperties{}); err != nil {
		return wrong(err)
	}
	h.stack.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: nic}})
	return nil
}

// receive hands a packet of the link to the stack.
func (h *Host) receive(b []byte) {
	pkt := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(b)})
	h.link.InjectInbound(ipv4.ProtocolNumber, pkt)
	pkt.DecRef()
}

// send hands the stack's packets to the link.
func (h *Host) send() {
	for {
		pkt := h.link.ReadContext(h.ctx)
		if pkt == nil {
			return
		}
		h.acks.packet(append([]byte(nil), pkt.ToView().AsSlice()...))
		pkt.DecRef()
	}
}

// Addr is the host's address.
func (h *Host) Addr() netip.Addr { return h.addr }

// Port is where the host is attached.
func (h *Host) Port() *links.Port { return h.port }

func (h *Host) full(port uint16) tcpip.FullAddress {
	return tcpip.FullAddress{NIC: nic, Addr: tcpip.AddrFrom4(h.addr.As4()), Port: port}
}

// Dial opens a connection of TCP.
func (h *Host) Dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	if !to.Addr().Is4() {
		return nil, fault.New(fault.Network, "%v: the emulated network has IPv4 only", to)
	}
	c, err := gonet.DialTCPWithBind(ctx, h.stack, h.full(0), tcpip.FullAddress{NIC: nic, Addr: tcpip.AddrFrom4(to.Addr().As4()), Port: to.Port()}, ipv4.ProtocolNumber)
	if err != nil {
		return nil, fault.New(fault.Network, "dial in the emulated network: %w", err)
	}
	return keep(c), nil
}

// Listen opens a port of TCP; port 0 takes any.
func (h *Host) Listen(port uint16) (net.Listener, error) {
	l, err := gonet.ListenTCP(h.stack, h.full(port), ipv4.ProtocolNumber)
	if err != nil {
		return nil, fault.New(fault.Local, "listen in the emulated network: %w", err)
	}
	return &listener{TCPListener: l, closed: make(chan struct{})}, nil
}

// ListenPacket opens a port of UDP; port 0 takes any.
func (h *Host) ListenPacket(port uint16) (net.PacketConn, error) {
	at := h.full(port)
	c, err := gonet.DialUDP(h.stack, &at, nil, ipv4.ProtocolNumber)
	if err != nil {
		return nil, fault.New(fault.Local, "listen in the emulated network: %w", err)
	}
	return c, nil
}

// Close ends the host's connections without a word to others, as when its power goes.
func (h *Host) Close() {
	h.once.Do(func() {
		h.cancel()
		h.loop.Wait()
		h.port.Close()
		h.stack.Destroy()
		h.link.Close()
	})
}

// listener gives connections that keep their addresses.
type listener struct {
	*gonet.TCPListener
	once   sync.Once
	closed chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.TCPListener.Accept()
	select {
	case <-l.closed:
		if err == nil {
			c.Close()
		}
		return nil, net.ErrClosed
	default:
	}
	if err != nil {
		return nil, err
	}
	return keep(c.(*gonet.TCPConn)), nil
}

// Close ends the port, and an Accept that waits.
func (l *listener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.TCPListener.Shutdown()
		l.TCPListener.Close()
	})
	return nil
}

// conn is a connection whose addresses are known also after it was reset.
type conn struct {
	*gonet.TCPConn
	local, remote net.Addr
}

// keep notes the addresses. A connection that was reset already has none.
func keep(c *gonet.TCPConn) net.Conn {
	out := &conn{c, c.LocalAddr(), c.RemoteAddr()}
	for _, a := range []*net.Addr{&out.local, &out.remote} {
		if *a == nil {
			*a = new(net.TCPAddr)
		}
	}
	return out
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

func wrong(err tcpip.Error) error {
	return fault.New(fault.Local, "the emulated host's stack: %w", errors.New(err.String()))
}
