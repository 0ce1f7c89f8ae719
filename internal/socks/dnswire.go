package socks

import (
	"net/netip"
	"strings"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
)

const (
	minUDP = 512  // RFC 1035: the size that a client takes without EDNS
	maxUDP = 1232 // the largest answer: it fits every path's MTU

	maxAnswers = 32 // more than a RESOLVED message can carry
)

// query is one question of a client, as far as this port answers it.
type query struct {
	header   dnsmessage.Header
	question dnsmessage.Question
	asked    bool // question is set
	strange  bool // it is no lookup, or malformed
	limit    int  // bytes of a datagram that the client takes
	rcode    dnsmessage.RCode
	host     string     // the name to resolve, for A and AAAA
	addr     netip.Addr // the address to resolve, for PTR
}

// parseQuery reads a DNS message. An error means that there is nothing to
// answer: not a query, or no header. A query that can be answered only with
// an error has that error in rcode.
func parseQuery(b []byte) (query, error) {
	q := query{limit: minUDP}
	var p dnsmessage.Parser
	var err error
	if q.header, err = p.Start(b); err != nil {
		return q, fault.New(fault.Protocol, "DNS header: %w", err)
	}
	if q.header.Response {
		return q, fault.New(fault.Protocol, "DNS response where a query belongs")
	}
	if q.header.OpCode != 0 {
		q.rcode, q.strange = dnsmessage.RCodeNotImplemented, true
		return q, nil
	}
	if q.question, err = p.Question(); err != nil {
		q.rcode, q.strange = dnsmessage.RCodeFormatError, true
		return q, nil
	}
	q.asked = true
	if _, err := p.Question(); err != dnsmessage.ErrSectionDone {
		q.rcode, q.strange = dnsmessage.RCodeFormatError, true // one question, as everyone sends
		return q, nil
	}
	q.limit = datagramLimit(&p)
	q.rcode = q.understand()
	return q, nil
}

// datagramLimit returns the size that an EDNS option offers, within bounds.
func datagramLimit(p *dnsmessage.Parser) int {
	if p.SkipAllAnswers() != nil || p.SkipAllAuthorities() != nil {
		return minUDP
	}
	for {
		h, err := p.AdditionalHeader()
		if err != nil {
			return minUDP
		}
		if h.Type == dnsmessage.TypeOPT {
			return min(max(int(h.Class), minUDP), maxUDP)
		}
		if p.SkipAdditional() != nil {
			return minUDP
		}
	}
}

// understand fills in host or addr, or returns the error to answer with.
func (q *query) understand() dnsmessage.RCode {
	if q.question.Class != dnsmessage.ClassINET {
		return dnsmessage.RCodeNotImplemented
	}
	name := strings.TrimSuffix(q.question.Name.String(), ".")
	switch q.question.Type {
	case dnsmessage.TypeA, dnsmessage.TypeAAAA:
		host, err := parseHost(name)
		if err != nil {
			return dnsmessage.RCodeNameError
		}
		q.host = host
	case dnsmessage.TypePTR:
		addr, ok := cell.ParseReverseName(name)
		if !ok {
			return dnsmessage.RCodeNameError
		}
		q.addr = addr
	default:
		return dnsmessage.RCodeNotImplemented
	}
	return dnsmessage.RCodeSuccess
}

// appendAnswer packs the answer to q. limit bounds its size in bytes; answers
// that do not fit are left out, and the message marked as truncated.
func (q *query) appendAnswer(answers []Answer, rcode dnsmessage.RCode, limit int) ([]byte, error) {
	if len(answers) > maxAnswers {
		answers = answers[:maxAnswers]
	}
	for n := len(answers); ; n-- {
		b, err := q.pack(answers[:n], rcode, n < len(answers))
		if err != nil || len(b) <= limit || n == 0 {
			return b, err
		}
	}
}

func (q *query) pack(answers []Answer, rcode dnsmessage.RCode, truncated bool) ([]byte, error) {
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{
		ID: q.header.ID, Response: true, OpCode: q.header.OpCode, Truncated: truncated,
		RecursionDesired: q.header.RecursionDesired, RecursionAvailable: true, RCode: rcode,
	})
	b.EnableCompression()
	if q.asked {
		if err := b.StartQuestions(); err != nil {
			return nil, err
		}
		if err := b.Question(q.question); err != nil {
			return nil, err
		}
	}
	if err := b.StartAnswers(); err != nil {
		return nil, err
	}
	for _, a := range answers {
		if err := q.addAnswer(&b, a); err != nil {
			return nil, err
		}
	}
	return b.Finish()
}

// addAnswer adds the record for a, if it is of the type that the client asked for.
func (q *query) addAnswer(b *dnsmessage.Builder, a Answer) error {
	h := dnsmessage.ResourceHeader{Name: q.question.Name, Class: dnsmessage.ClassINET, TTL: a.TTL}
	addr := a.Addr.Unmap()
	switch t := q.question.Type; {
	case t == dnsmessage.TypeA && addr.Is4():
		return b.AResource(h, dnsmessage.AResource{A: addr.As4()})
	case t == dnsmessage.TypeAAAA && addr.Is6():
		return b.AAAAResource(h, dnsmessage.AAAAResource{AAAA: addr.As16()})
	case t == dnsmessage.TypePTR && a.Name != "":
		n, err := dnsmessage.NewName(strings.TrimSuffix(a.Name, ".") + ".")
		if err != nil {
			return err
		}
		return b.PTRResource(h, dnsmessage.PTRResource{PTR: n})
	}
	return nil
}
