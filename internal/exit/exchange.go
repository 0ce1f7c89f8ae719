package exit

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics"
)

// udpSize is the largest answer by UDP that is requested, in bytes: networks
// carry it without fragmentation (DNS flag day 2020).
const udpSize = 1232

// errNoServer is the error of a server that did not answer, whatever the
// reason: an error of the net package would name the server.
var errNoServer = fault.New(fault.Network, "look up a name: the name server does not answer")

// maxMessage is the longest answer that is read, in bytes: many times what all
// used addresses, and all aliases that servers follow, need.
const maxMessage = 16 << 10

var errTooLong = fault.New(fault.Network, "look up a name: the name server's answer is too long")

// exchange asks a server over "udp" or "tcp" and returns its answer to this
// question; it ignores other datagrams. With edns it says how long a datagram may be.
func (r *resolver) exchange(ctx context.Context, timeout time.Duration, network, server string, q query, edns bool) (*reply, error) {
	id, msg, err := question(q, edns)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	dial := r.dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	conn, err := dial(ctx, network, server)
	if err != nil {
		return nil, errNoServer
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, errNoServer
	}
	if network == "tcp" {
		msg = append(binary.BigEndian.AppendUint16(nil, uint16(len(msg))), msg...)
	}
	if _, err := conn.Write(msg); err != nil {
		return nil, errNoServer
	}
	stop := context.AfterFunc(ctx, panics.Contain(nil, nil, func() { conn.Close() })) // the caller waits no longer
	defer stop()
	buf := make([]byte, 4096) // for UDP, larger than udpSize
	for {
		msg, err := receive(conn, network, buf)
		if errors.Is(err, errTooLong) {
			return nil, err
		}
		if err != nil {
			return nil, errNoServer
		}
		if r, ok := readReply(msg, id, q); ok {
			return r, nil
		}
		if network == "tcp" {
			return nil, fault.New(fault.Network, "look up a name: the name server answers another question")
		}
	}
}

// question makes a query with a random identifier.
func question(q query, edns bool) (id uint16, msg []byte, err error) {
	name, err := dnsmessage.NewName(q.name)
	if err != nil {
		return 0, nil, errNoName
	}
	var b [2]byte
	if _, err := rand.Read(b[:]); err != nil {
		return 0, nil, fault.Wrap(fault.Local, err)
	}
	id = binary.BigEndian.Uint16(b[:])
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: id, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: name, Type: q.typ, Class: dnsmessage.ClassINET}},
	}
	if edns {
		var opt dnsmessage.ResourceHeader
		if err := opt.SetEDNS0(udpSize, dnsmessage.RCodeSuccess, false); err != nil {
			return 0, nil, fault.Wrap(fault.Local, err)
		}
		m.Additionals = []dnsmessage.Resource{{Header: opt, Body: &dnsmessage.OPTResource{}}}
	}
	msg, err = m.Pack()
	if err != nil {
		return 0, nil, errNoName // a name that DNS cannot carry
	}
	return id, msg, nil
}

// receive reads one message, into buf if it fits.
func receive(conn net.Conn, network string, buf []byte) ([]byte, error) {
	if network == "udp" {
		n, err := conn.Read(buf)
		return buf[:n], err
	}
	if _, err := io.ReadFull(conn, buf[:2]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint16(buf))
	if n > maxMessage {
		return nil, errTooLong
	}
	msg := make([]byte, n)
	_, err := io.ReadFull(conn, msg)
	return msg, err
}

// systemServers reads the name servers out of resolv.conf.
func systemServers(doc string) []string {
	var out []string
	for line := range strings.Lines(doc) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != "nameserver" {
			continue
		}
		if a, err := netip.ParseAddr(f[1]); err == nil {
			out = append(out, netip.AddrPortFrom(a, 53).String())
		}
	}
	return out
}
