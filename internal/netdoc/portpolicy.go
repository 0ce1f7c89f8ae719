package netdoc

import (
	"strings"

	"github.com/chivenet/chive/internal/fault"
)

// PortPolicy is an exit policy summary (dir-spec, "p" and "p6" lines): the ports that
// a relay allows for most addresses.
type PortPolicy struct {
	Accept bool // the ranges are accepted; otherwise they are rejected
	Ranges []PortRange
}

// PortRange is an inclusive range of ports.
type PortRange struct{ Lo, Hi uint16 }

// maxRanges bounds a summary; C tor writes at most 1000 characters.
const maxRanges = 1000

// ParsePortPolicy reads "accept" or "reject" and a list such as "80,443,6660-6669".
func ParsePortPolicy(args Args) (*PortPolicy, error) {
	verb, _ := args.Next()
	p := &PortPolicy{Accept: string(verb) == "accept"}
	if !p.Accept && string(verb) != "reject" {
		return nil, fault.New(fault.Directory, "%q is neither accept nor reject", clip(verb))
	}
	list, err := args.need("list of ports")
	if err != nil {
		return nil, err
	}
	for len(list) > 0 {
		var one []byte
		one, list = cutByte(list, ',')
		r, err := parsePortRange(one)
		if err != nil {
			return nil, err
		}
		if len(p.Ranges) == maxRanges {
			return nil, fault.New(fault.Resource, "more than %d ranges of ports", maxRanges)
		}
		p.Ranges = append(p.Ranges, r)
	}
	return p, nil
}

func cutByte(b []byte, sep byte) (before, after []byte) {
	for i, c := range b {
		if c == sep {
			return b[:i], b[i+1:]
		}
	}
	return b, nil
}

// parsePortRange reads PORT or PORT-PORT, ports from 1.
func parsePortRange(b []byte) (PortRange, error) {
	loText, hiText := cutByte(b, '-')
	if hiText == nil {
		hiText = loText
	}
	lo, err := parseUint(loText, "port", 65535)
	if err != nil {
		return PortRange{}, err
	}
	hi, err := parseUint(hiText, "port", 65535)
	if err != nil {
		return PortRange{}, err
	}
	if lo == 0 || lo > hi {
		return PortRange{}, fault.New(fault.Directory, "%q is not a range of ports", clip(b))
	}
	return PortRange{uint16(lo), uint16(hi)}, nil
}

// AllowsPort reports whether the summary accepts the port. A nil policy rejects all
// ports.
func (p *PortPolicy) AllowsPort(port uint16) bool {
	if p == nil {
		return false
	}
	for _, r := range p.Ranges {
		if port >= r.Lo && port <= r.Hi {
			return p.Accept
		}
	}
	return !p.Accept
}

// RejectsAll reports whether the policy rejects every port.
func (p *PortPolicy) RejectsAll() bool {
	if p == nil {
		return true
	}
	next := 1 // the lowest port that is not known to be rejected
	if p.Accept {
		return len(p.Ranges) == 0
	}
	for again := true; again; {
		again = false
		for _, r := range p.Ranges {
			if int(r.Lo) <= next && int(r.Hi) >= next {
				next, again = int(r.Hi)+1, true
			}
		}
	}
	return next > 65535
}

// String returns the line's arguments.
func (p *PortPolicy) String() string {
	if p == nil {
		return "reject 1-65535"
	}
	var b strings.Builder
	if p.Accept {
		b.WriteString("accept ")
	} else {
		b.WriteString("reject ")
	}
	for i, r := range p.Ranges {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(r.String())
	}
	return b.String()
}

// String returns the range in the form of a port list.
func (r PortRange) String() string {
	if r.Hi == r.Lo {
		return itoa(r.Lo)
	}
	return itoa(r.Lo) + "-" + itoa(r.Hi)
}
