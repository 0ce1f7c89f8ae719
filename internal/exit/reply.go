package exit

import (
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/chivenet/chive/internal/netaddr"
)

// maxRecords bounds how many records of an answer are read: the owner of a name
// chooses their number.
const maxRecords = 256

// reply has the used parts of a name server's message.
type reply struct {
	code      dnsmessage.RCode
	truncated bool
	addrs     []netip.Addr
	name      string // of an address
	ttl       uint32 // the least of all records
}

// foreign reports whether a server does not know EDNS (RFC 6891, section 7): then it must
// be asked without.
func (r *reply) foreign() bool {
	return r.code == dnsmessage.RCodeFormatError || r.code == dnsmessage.RCodeNotImplemented
}

// readReply reads a message if it answers the question with this identifier: an
// attacker who does not see the question can guess the name, but not the
// identifier and port. It reads the records of the requested type, for the name
// and its aliases, in any order. It unpacks nothing else.
func readReply(msg []byte, id uint16, q query) (*reply, bool) {
	var p dnsmessage.Parser
	h, err := p.Start(msg)
	if err != nil || !h.Response || h.ID != id {
		return nil, false
	}
	r := &reply{code: h.RCode, truncated: h.Truncated, ttl: maxTTL}
	asked, err := p.Question()
	if err == dnsmessage.ErrSectionDone && r.foreign() {
		return r, true // it did not read the question
	}
	if err != nil || asked.Type != q.typ || asked.Class != dnsmessage.ClassINET || !strings.EqualFold(asked.Name.String(), q.name) {
		return nil, false
	}
	if _, err := p.Question(); err != dnsmessage.ErrSectionDone {
		return nil, false
	}
	if r.truncated {
		return r, true
	}
	for range maxRecords {
		rr, err := p.AnswerHeader()
		if err == dnsmessage.ErrSectionDone {
			break
		}
		if err != nil {
			return nil, false
		}
		r.ttl = min(r.ttl, rr.TTL)
		if rr.Type != q.typ || rr.Class != dnsmessage.ClassINET {
			err = p.SkipAnswer()
		} else {
			err = r.read(&p, q)
		}
		if err != nil {
			return nil, false
		}
	}
	return r, true
}

// read reads one record of the requested type.
func (r *reply) read(p *dnsmessage.Parser, q query) error {
	switch q.typ {
	case dnsmessage.TypeA:
		v, err := p.AResource()
		if err == nil {
			r.add(netip.AddrFrom4(v.A))
		}
		return err
	case dnsmessage.TypeAAAA:
		v, err := p.AAAAResource()
		// An IPv4-mapped address would count as IPv6, which the client may want
		// and the policy may allow.
		if a := netip.AddrFrom16(v.AAAA); err == nil && !a.Is4In6() {
			r.add(a)
		}
		return err
	case dnsmessage.TypePTR:
		v, err := p.PTRResource()
		if name := strings.TrimSuffix(v.PTR.String(), "."); err == nil && r.name == "" && tellable(name) {
			r.name = name
		}
		return err
	}
	return p.SkipAnswer()
}

// tellable reports whether a client may hear of a name. The owner of an address chooses
// it: programs must not take it for something else, as for an option of a command.
func tellable(name string) bool { return netaddr.HostName(name) && !strings.HasPrefix(name, "-") }

func (r *reply) add(a netip.Addr) {
	if len(r.addrs) < maxAnswers && !slices.Contains(r.addrs, a) {
		r.addrs = append(r.addrs, a)
	}
}
