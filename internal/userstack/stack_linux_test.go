package userstack

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
)

// TestConnection: bytes go both ways, and each end of a direction, to any address and port.
func TestConnection(t *testing.T) {
	r := newRig(t, 4)
	for _, to := range []string{"192.0.2.7:80", "[2001:db8::7]:443"} {
		near, far := tcpPair(t)
		type result struct {
			c   *gonet.TCPConn
			err error
		}
		done := make(chan result, 1)
		go func() {
			c, err := r.connect(t.Context(), to)
			done <- result{c, err}
		}()
		d := <-r.dials
		if got := netip.AddrPortFrom(netip.MustParseAddr(d.host), d.port).String(); got != to {
			t.Errorf("the dial goes to %s, not %s", got, to)
		}
		select {
		case <-done:
			t.Error("the connection is open before its stream")
		default:
		}
		d.answer <- net.Conn(near)
		res := <-done
		if res.err != nil {
			t.Fatal(res.err)
		}
		sent := bytes.Repeat([]byte("0123456789abcdef"), 40_000)
		go func() { res.c.Write(sent); res.c.CloseWrite() }()
		if got, err := io.ReadAll(far); err != nil || !bytes.Equal(got, sent) {
			t.Errorf("%d bytes of %d went out, %v", len(got), len(sent), err)
		}
		go func() { far.Write(sent); far.CloseWrite() }()
		if got, err := io.ReadAll(res.c); err != nil || !bytes.Equal(got, sent) {
			t.Errorf("%d bytes of %d came in, %v", len(got), len(sent), err)
		}
		res.c.Close()
	}
}

// TestBroken: what breaks on one side is a reset on the other, also when nothing moves.
func TestBroken(t *testing.T) {
	r := newRig(t, 4)
	program, far := r.open(t, "192.0.2.7:80")
	far.SetLinger(0)
	far.Close()
	program.SetDeadline(time.Now().Add(time.Minute))
	if _, err := program.Read(make([]byte, 1)); err == nil || err == io.EOF {
		t.Errorf("the stream broke, and the program sees %v", err)
	}
	program.Close()

	// The far end reads nothing, and the program's bytes fill everything on the way.
	near := newStuck()
	go func() { (<-r.dials).answer <- net.Conn(near) }()
	program, err := r.connect(t.Context(), "192.0.2.7:80")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := program.Write(make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	<-near.writing
	r.program.Close() // all of the program's connections are reset, as when it dies
	select {
	case <-near.closed:
	case <-time.After(20 * time.Second):
		t.Error("the program has gone, and its stream is still there")
	}
}

// stuck is a stream on which nothing moves.
type stuck struct {
	net.Conn
	once            sync.Once
	writing, closed chan struct{}
}

func newStuck() *stuck { return &stuck{writing: make(chan struct{}, 1), closed: make(chan struct{})} }

func (s *stuck) Read([]byte) (int, error) { <-s.closed; return 0, io.ErrClosedPipe }
func (s *stuck) Close() error             { s.once.Do(func() { close(s.closed) }); return nil }

func (s *stuck) Write([]byte) (int, error) {
	s.writing <- struct{}{}
	<-s.closed
	return 0, io.ErrClosedPipe
}

// TestRefused: what fails, and what is no TCP, is refused at once.
func TestRefused(t *testing.T) {
	r := newRig(t, 4)
	go func() { (<-r.dials).answer <- errors.New("no such host") }()
	if c, err := r.connect(t.Context(), "192.0.2.7:80"); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("a dial that failed: %v, %v", c, err)
	}
	if c, err := r.connect(t.Context(), "198.18.0.2:80"); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("another port of the name server: %v, %v", c, err)
	}
	if len(r.dials) != 0 {
		t.Error("the name server's address was dialled")
	}
	for p, to := range map[tcpip.NetworkProtocolNumber]string{ipv4.ProtocolNumber: "192.0.2.7:53", ipv6.ProtocolNumber: "[2001:db8::7]:123"} {
		a := netip.MustParseAddrPort(to)
		c, err := gonet.DialUDP(r.program, nil, &tcpip.FullAddress{NIC: 1, Addr: tcpip.AddrFromSlice(a.Addr().AsSlice()), Port: a.Port()}, p)
		if err != nil {
			t.Fatal(err)
		}
		for range 100 { // more than the burst that a kernel answers
			for _, err := c.Write([]byte("x")); err != nil; _, err = c.Write([]byte("x")) {
				// of the one before
			}
			select {
			case b := <-r.seen:
				if b[0]>>4 == 4 && (b[20] != 3 || b[21] != 3) || b[0]>>4 == 6 && (b[40] != 1 || b[41] != 4) {
					t.Fatalf("UDP to %s: the answer % x", to, b)
				}
			case <-time.After(time.Minute):
				t.Fatalf("UDP to %s: no answer", to)
			}
		}
		c.Close()
	}
}

// packet4 returns an IPv4 packet.
func packet4(protocol tcpip.TransportProtocolNumber, to string, offset uint16, payload []byte) []byte {
	b := header.IPv4(make([]byte, header.IPv4MinimumSize+len(payload)))
	b.Encode(&header.IPv4Fields{TotalLength: uint16(len(b)), TTL: 9, Protocol: uint8(protocol), FragmentOffset: offset,
		SrcAddr: tcpip.AddrFrom4([4]byte{198, 18, 0, 1}), DstAddr: tcpip.AddrFromSlice(netip.MustParseAddr(to).AsSlice())})
	b.SetChecksum(^b.CalculateChecksum())
	copy(b.Payload(), payload)
	return b
}

func packet6(protocol tcpip.TransportProtocolNumber, to string, payload []byte) []byte {
	b := header.IPv6(make([]byte, header.IPv6MinimumSize+len(payload)))
	b.Encode(&header.IPv6Fields{PayloadLength: uint16(len(payload)), HopLimit: 9, TransportProtocol: protocol,
		SrcAddr: tcpip.AddrFromSlice(netip.MustParseAddr("fd15:159f:ab53::1").AsSlice()), DstAddr: tcpip.AddrFromSlice(netip.MustParseAddr(to).AsSlice())})
	copy(b.Payload(), payload)
	return b
}

// TestJudge: which packets reach the stack, which are refused, and which have no answer.
func TestJudge(t *testing.T) {
	echo, answer := []byte{8, 0, 0, 0, 0, 0, 0, 0}, []byte{3, 0, 0, 0, 0, 0, 0, 0}
	echo6, answer6 := []byte{128, 0, 0, 0, 0, 0, 0, 0}, []byte{1, 0, 0, 0, 0, 0, 0, 0}
	for _, c := range []struct {
		what string
		b    []byte
		want int
	}{
		{"TCP", packet4(6, "192.0.2.7", 0, make([]byte, 20)), take},
		{"UDP", packet6(17, "2001:db8::7", make([]byte, 8)), take},
		{"ping", packet4(1, "192.0.2.7", 0, echo), refuse},
		{"ping of the name server", packet4(1, "198.18.0.2", 0, echo), refuse},
		{"ping 6", packet6(58, "2001:db8::7", echo6), refuse},
		{"an error", packet4(1, "192.0.2.7", 0, answer), drop},
		{"an error 6", packet6(58, "2001:db8::7", answer6), drop},
		{"a part of ICMP", packet4(1, "192.0.2.7", 0, echo[:3]), drop},
		{"a later fragment of SCTP", packet4(132, "192.0.2.7", 64, echo), drop},
		{"SCTP", packet4(132, "192.0.2.7", 0, echo), refuse},
		{"SCTP 6", packet6(132, "2001:db8::7", echo), refuse},
		{"a header for every hop", packet6(0, "2001:db8::7", make([]byte, 16)), refuse},
		{"ping of all", packet4(1, "255.255.255.255", 0, echo), drop},
		{"IGMP", packet4(2, "224.0.0.22", 0, echo), drop},
		{"neighbours", packet6(58, "ff02::1", echo6), drop},
		{"nothing", nil, drop},
		{"half a header", packet4(6, "192.0.2.7", 0, nil)[:10], drop},
		{"a length that lies", packet6(6, "2001:db8::7", make([]byte, 20))[:50], drop},
		{"version 5", append([]byte{0x50}, make([]byte, 40)...), drop},
	} {
		if _, got := judge(c.b); got != c.want {
			t.Errorf("%s: %d, want %d", c.what, got, c.want)
		}
	}
}

// TestProhibited: an echo request is answered by the error that the network forbids it, not by an echo.
func TestProhibited(t *testing.T) {
	r := newRig(t, 4)
	ping := packet4(1, "192.0.2.7", 0, []byte{8, 0, 0, 0, 0, 1, 0, 1})
	r.wire.Write(ping)
	ip := header.IPv4(<-r.seen)
	if m := header.ICMPv4(ip.Payload()); !ip.IsValid(len(ip)) || !ip.IsChecksumValid() || m.Type() != header.ICMPv4DstUnreachable || m.Code() != header.ICMPv4AdminProhibited ||
		header.ICMPv4Checksum(m, 0) != m.Checksum() || !bytes.Equal(m.Payload(), ping) || ip.DestinationAddress() != header.IPv4(ping).SourceAddress() {
		t.Errorf("the answer % x", []byte(ip))
	}
	ping = packet6(58, "2001:db8::7", []byte{128, 0, 0, 0, 0, 1, 0, 1})
	r.wire.Write(ping)
	ip6 := header.IPv6(<-r.seen)
	m := header.ICMPv6(ip6.Payload())
	sum := header.ICMPv6Checksum(header.ICMPv6ChecksumParams{Header: m, Src: ip6.SourceAddress(), Dst: ip6.DestinationAddress()})
	if !ip6.IsValid(len(ip6)) || m.Type() != header.ICMPv6DstUnreachable || m.Code() != header.ICMPv6Prohibited || sum != m.Checksum() ||
		!bytes.Equal(m[header.ICMPv6DstUnreachableMinimumSize:], ping) {
		t.Errorf("the answer % x", []byte(ip6))
	}
}

// TestBound: the connections have a bound, with those that are being opened.
func TestBound(t *testing.T) {
	r := newRig(t, 2)
	first, far := r.open(t, "192.0.2.7:80")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	opening := make(chan struct{})
	go func() {
		defer close(opening)
		r.connect(ctx, "192.0.2.7:81")
	}()
	waits := <-r.dials
	if c, err := r.connect(t.Context(), "192.0.2.7:82"); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("one more than the bound: %v, %v", c, err)
	}
	first.Close()
	far.Close()
	for len(r.room) > 1 {
		runtime.Gosched()
	}
	again, _ := r.open(t, "192.0.2.7:83")
	again.Close()
	waits.answer <- errors.New("no")
	<-opening
}

// closing is a connection that says when it is closed.
type closing struct {
	*net.TCPConn
	closed chan struct{}
	once   sync.Once
}

func (c *closing) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.TCPConn.Close()
}

// TestUnreadBound: a connection that has ended at both ends keeps its place while the program has not read what came: that
// is in this process.
func TestUnreadBound(t *testing.T) {
	r := newRig(t, 1)
	little := tcpip.TCPReceiveBufferSizeRangeOption{Min: 4 << 10, Default: 16 << 10, Max: 16 << 10} // what the program's kernel takes
	if err := r.program.SetTransportProtocolOption(tcp.ProtocolNumber, &little); err != nil {
		t.Fatal(err)
	}
	type result struct {
		c   *gonet.TCPConn
		err error
	}
	opened := make(chan result, 1)
	go func() {
		c, err := r.connect(t.Context(), "192.0.2.7:80")
		opened <- result{c, err}
	}()
	d := <-r.dials
	near, far := tcpPair(t)
	c := &closing{TCPConn: near, closed: make(chan struct{})}
	d.answer <- net.Conn(c)
	first := <-opened
	if first.err != nil {
		t.Fatal(first.err)
	}
	sent := make([]byte, bufferSize) // this process takes all of it
	if _, err := far.Write(sent); err != nil {
		t.Fatal(err)
	}
	far.CloseWrite()
	first.c.CloseWrite()
	<-c.closed
	for range 100 {
		refused := make(chan error, 1)
		go func() {
			_, err := r.connect(t.Context(), "192.0.2.7:81")
			refused <- err
		}()
		select {
		case err := <-refused:
			if err == nil || !strings.Contains(err.Error(), "refused") {
				t.Fatal(err)
			}
		case d := <-r.dials:
			d.answer <- errors.New("no")
			<-refused
			t.Fatal("a second connection has a place, while the first one is unread")
		}
	}
	if got, err := io.ReadAll(first.c); err != nil || len(got) != len(sent) {
		t.Fatalf("%d bytes of %d: %v", len(got), len(sent), err)
	}
	for len(r.room) > 0 {
		runtime.Gosched()
	}
	again, _ := r.open(t, "192.0.2.7:82")
	again.Close()
	first.c.Close()
}

// TestClose: the end of the stack ends what is being opened and what is open, whatever it waits for.
func TestClose(t *testing.T) {
	r := newRig(t, 4)
	near := newStuck()
	go func() { (<-r.dials).answer <- net.Conn(near) }()
	program, err := r.connect(t.Context(), "192.0.2.7:80")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := program.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	<-near.writing
	ctx, cancel := context.WithCancel(t.Context())
	opening := make(chan struct{})
	go func() {
		defer close(opening)
		r.connect(ctx, "192.0.2.7:81")
	}()
	d := <-r.dials
	r.Close()
	<-d.ctx.Done()
	<-near.closed
	nothingLeft(t)
	cancel()
	<-opening
}

// TestDeviceGone: when the namespace goes, the reader ends; Close ends the rest.
func TestDeviceGone(t *testing.T) {
	r := newRig(t, 4)
	r.wire.Close()
	r.Close()
	nothingLeft(t)
}

// TestNames: the name server answers over UDP and TCP.
func TestNames(t *testing.T) {
	r := newRig(t, 4)
	at := tcpip.FullAddress{NIC: 1, Addr: tcpip.AddrFrom4(nameserver.As4()), Port: 53}
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		if network == "tcp" {
			return gonet.DialContextTCP(ctx, r.program, at, ipv4.ProtocolNumber)
		}
		return gonet.DialUDP(r.program, nil, &at, ipv4.ProtocolNumber)
	}}
	if addrs, err := resolver.LookupHost(t.Context(), "host.test."); err != nil || len(addrs) != 1 || addrs[0] != "100.64.0.9" {
		t.Errorf("over UDP: %q, %v", addrs, err)
	}
	c, err := gonet.DialContextTCP(t.Context(), r.program, at, ipv4.ProtocolNumber)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	q := dnsmessage.Message{Header: dnsmessage.Header{ID: 7}, Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName("host.test."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}}}
	b, err := q.AppendPack(make([]byte, 2))
	if err != nil {
		t.Fatal(err)
	}
	b[1] = byte(len(b) - 2)
	if _, err := c.Write(b); err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(time.Minute))
	size := make([]byte, 2)
	if _, err := io.ReadFull(c, size); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, int(size[0])<<8|int(size[1]))
	if _, err := io.ReadFull(c, answer); err != nil {
		t.Fatal(err)
	}
	if err := q.Unpack(answer); err != nil || len(q.Answers) != 1 {
		t.Errorf("over TCP: %+v, %v", q, err)
	}
}
