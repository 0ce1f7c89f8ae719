package userstack

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/channel"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"

	"github.com/chivenet/chive/internal/socks"
)

const mtu = 4000

var nameserver = netip.MustParseAddr("198.18.0.2")

// dialer hands each dial to the test.
type dialer struct {
	dials chan *dial
}

type dial struct {
	host   string
	port   uint16
	ctx    context.Context
	answer chan any // a net.Conn or an error
}

func (d *dialer) Dial(ctx context.Context, req socks.Request) (net.Conn, error) {
	one := &dial{req.Host, req.Port, ctx, make(chan any, 1)}
	d.dials <- one
	select {
	case a := <-one.answer:
		if c, ok := a.(net.Conn); ok {
			return c, nil
		}
		return nil, a.(error)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (d *dialer) Resolve(context.Context, socks.Request) ([]socks.Answer, error) {
	return []socks.Answer{{Addr: netip.MustParseAddr("100.64.0.9"), TTL: 60}}, nil
}

func (d *dialer) ResolvePTR(context.Context, netip.Addr, socks.Request) ([]socks.Answer, error) {
	return nil, errors.New("no name")
}

// rig is a Stack, and another stack that has the part of the programs' kernel.
type rig struct {
	*Stack
	*dialer
	program *stack.Stack
	wire    *os.File    // the program's end of the device
	seen    chan []byte // ICMP that came to the program
}

func newRig(t *testing.T, conns int) *rig {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{dialer: &dialer{make(chan *dial, 16)}, wire: os.NewFile(uintptr(fds[1]), "wire"), seen: make(chan []byte, 16)}
	if r.Stack, err = New(os.NewFile(uintptr(fds[0]), "tun"), Config{Dialer: r.dialer, Nameserver: nameserver, MTU: mtu, MaxConns: conns}); err != nil {
		t.Fatal(err)
	}
	r.program = stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol, ipv6.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, udp.NewProtocol},
	})
	link := channel.New(512, mtu, "")
	if err := r.program.CreateNIC(1, link); err != nil {
		t.Fatal(err)
	}
	for p, a := range map[tcpip.NetworkProtocolNumber]string{ipv4.ProtocolNumber: "198.18.0.1", ipv6.ProtocolNumber: "fd15:159f:ab53::1"} {
		own := tcpip.ProtocolAddress{Protocol: p, AddressWithPrefix: tcpip.AddrFromSlice(netip.MustParseAddr(a).AsSlice()).WithPrefix()}
		if err := r.program.AddProtocolAddress(1, own, stack.AddressProperties{}); err != nil {
			t.Fatal(err)
		}
	}
	r.program.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: 1}, {Destination: header.IPv6EmptySubnet, NIC: 1}})
	ctx, cancel := context.WithCancel(context.Background())
	var pumps sync.WaitGroup
	pumps.Go(func() {
		for pkt := link.ReadContext(ctx); pkt != nil; pkt = link.ReadContext(ctx) {
			v := pkt.ToView()
			r.wire.Write(v.AsSlice())
			v.Release()
			pkt.DecRef()
		}
	})
	pumps.Go(func() {
		b := make([]byte, 1<<16)
		for {
			n, err := r.wire.Read(b)
			if err != nil || n == 0 {
				return
			}
			p := header.IPv4ProtocolNumber
			if header.IPVersion(b) == header.IPv6Version {
				p = header.IPv6ProtocolNumber
			}
			if b[0]>>4 == 4 && b[9] == 1 || b[0]>>4 == 6 && b[6] == 58 {
				select {
				case r.seen <- bytes.Clone(b[:n]):
				default:
				}
			}
			pkt := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(b[:n])})
			link.InjectInbound(p, pkt)
			pkt.DecRef()
		}
	})
	t.Cleanup(func() {
		r.Close()
		cancel()
		r.wire.Close()
		pumps.Wait()
		r.program.Destroy()
		link.Close()
		nothingLeft(t)
	})
	return r
}

// nothingLeft waits until no goroutine of this package's stacks runs.
func nothingLeft(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; runtime.Gosched() {
		var b bytes.Buffer
		pprof.Lookup("goroutine").WriteTo(&b, 2)
		if !strings.Contains(b.String(), "userstack.(*Stack)") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("goroutines are left:\n%s", b.String())
		}
	}
}

// connect is a program's connect.
func (r *rig) connect(ctx context.Context, to string) (*gonet.TCPConn, error) {
	a := netip.MustParseAddrPort(to)
	p := ipv4.ProtocolNumber
	if a.Addr().Is6() {
		p = ipv6.ProtocolNumber
	}
	return gonet.DialContextTCP(ctx, r.program, tcpip.FullAddress{NIC: 1, Addr: tcpip.AddrFromSlice(a.Addr().AsSlice()), Port: a.Port()}, p)
}

// tcpPair returns both ends of a TCP connection of loopback.
func tcpPair(t *testing.T) (near, far *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	f, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); f.Close() })
	return c.(*net.TCPConn), f.(*net.TCPConn)
}

// open opens a program's connection whose stream leads to far.
func (r *rig) open(t *testing.T, to string) (program *gonet.TCPConn, far *net.TCPConn) {
	t.Helper()
	near, far := tcpPair(t)
	go func() {
		d := <-r.dials
		d.answer <- net.Conn(near)
	}()
	program, err := r.connect(t.Context(), to)
	if err != nil {
		t.Fatalf("%s: %v", to, err)
	}
	return program, far
}
