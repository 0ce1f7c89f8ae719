package target

import (
	"net/netip"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

// The names that the name server knows. Other names do not exist.
const (
	Name4 = "four.target.test" // 127.0.0.1 only
	Name6 = "six.target.test"  // ::1 only
	Name  = "target.test"      // both, and the reverse name of Reverse
)

// Reverse is an address of a documentation network, whose name is Name: C tor's
// exits do not look up the names of loopback addresses.
var Reverse = netip.AddrFrom4([4]byte{192, 0, 2, 7})

var (
	addr4 = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	names = map[string][]netip.Addr{
		Name4: {addr4},
		Name6: {netip.IPv6Loopback()},
		Name:  {addr4, netip.IPv6Loopback()},
	}
	reverse = map[string]string{
		"7.2.0.192.in-addr.arpa": Name,
	}
)

func (t *Target) serveDNS() {
	buf := make([]byte, 1500)
	for {
		n, from, err := t.dns.ReadFromUDPAddrPort(buf)
		if err != nil {
			return // closed
		}
		if reply := answer(buf[:n]); reply != nil {
			t.dns.WriteToUDPAddrPort(reply, from) // after a lost reply the client asks again
		}
	}
}

// answer returns the reply to one query, or nil if it is not a query.
func answer(query []byte) []byte {
	var p dnsmessage.Parser
	h, err := p.Start(query)
	if err != nil || h.Response {
		return nil
	}
	q, err := p.Question()
	if err != nil {
		return nil
	}
	reply := dnsmessage.Header{ID: h.ID, Response: true, Authoritative: true, RecursionDesired: h.RecursionDesired, RecursionAvailable: true}
	// A resolver may mix the case of the name to recognise the reply.
	name := strings.ToLower(strings.TrimSuffix(q.Name.String(), "."))
	addrs, known := names[name]
	ptr, hasPTR := reverse[name]
	if !known && !hasPTR {
		reply.RCode = dnsmessage.RCodeNameError
	}
	b := dnsmessage.NewBuilder(nil, reply)
	b.EnableCompression()
	rh := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: 60}
	err = b.StartQuestions()
	keep := func(e error) {
		if err == nil {
			err = e
		}
	}
	keep(b.Question(q))
	keep(b.StartAnswers())
	for _, a := range addrs {
		switch {
		case a.Is4() && q.Type == dnsmessage.TypeA:
			keep(b.AResource(rh, dnsmessage.AResource{A: a.As4()}))
		case a.Is6() && q.Type == dnsmessage.TypeAAAA:
			keep(b.AAAAResource(rh, dnsmessage.AAAAResource{AAAA: a.As16()}))
		}
	}
	if hasPTR && q.Type == dnsmessage.TypePTR {
		keep(b.PTRResource(rh, dnsmessage.PTRResource{PTR: dnsmessage.MustNewName(ptr + ".")}))
	}
	out, e := b.Finish()
	keep(e)
	if err != nil {
		return nil
	}
	return out
}
