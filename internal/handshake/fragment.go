package handshake

import (
	"encoding/binary"
	"time"

	"github.com/chivenet/chive/internal/bin"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
)

// Bounds of a message in fragments (docs/spec/pq-circuits.md, section 4).
const (
	MaxFragmented   = cell.MaxLong     // bytes of a whole message
	FragmentTimeout = 10 * time.Second // from the first fragment to the last

	fragmentHeader = 4   // TOTAL 2 | OFFSET 2
	minFragment    = 256 // bytes in every fragment but the last
)

// AppendFragments cuts a message into relay message bodies of at most size
// bytes each, TOTAL 2 | OFFSET 2 | bytes, and appends them to dst. An empty
// message, one longer than MaxFragmented, and a size too small are refused.
func AppendFragments(dst [][]byte, msg []byte, size int) ([][]byte, error) {
	step := size - fragmentHeader
	if len(msg) == 0 || len(msg) > MaxFragmented || step < minFragment {
		return nil, fault.New(fault.Local, "fragments: a message of %d bytes in parts of %d", len(msg), size)
	}
	for off := 0; off < len(msg); off += step {
		part := msg[off:min(off+step, len(msg))]
		f := make([]byte, 0, fragmentHeader+len(part))
		f = binary.BigEndian.AppendUint16(f, uint16(len(msg)))
		f = binary.BigEndian.AppendUint16(f, uint16(off))
		dst = append(dst, append(f, part...))
	}
	return dst, nil
}

// Reassembly puts one message together; a circuit has at most one at a time.
// The zero value waits for a first fragment; it is small, because every circuit has one.
type Reassembly struct{ m *partial }

// partial is a message of which fragments have come.
type partial struct {
	buf      []byte
	total    int
	deadline time.Time
}

// Pending reports whether a message has begun and is not complete.
func (r *Reassembly) Pending() bool { return r.m != nil }

// Expired reports whether the message's time is over: the circuit is destroyed.
func (r *Reassembly) Expired(now time.Time) bool {
	return r.Pending() && !now.Before(r.m.deadline)
}

// Add takes one fragment. It returns the message once it is whole, and nil
// before. Fragments must come in order, without gap or overlap, agree on TOTAL,
// and come in time; an error costs the circuit.
func (r *Reassembly) Add(now time.Time, fragment []byte) (msg []byte, err error) {
	b := bin.NewReader("fragment", fragment)
	total, off := int(b.U16()), int(b.U16())
	part := b.Rest()
	if err := b.Err(); err != nil {
		return nil, err
	}
	m := r.m
	if m == nil {
		m = &partial{total: total, deadline: now.Add(FragmentTimeout)}
	}
	switch {
	case r.Expired(now):
		return nil, fault.New(fault.Timeout, "fragment: the message began more than %v ago", FragmentTimeout)
	case total == 0 || total > MaxFragmented:
		return nil, fault.New(fault.Protocol, "fragment: of a message of %d bytes", total)
	case total != m.total:
		return nil, fault.New(fault.Protocol, "fragment: of a message of %d bytes, not %d", total, m.total)
	case off != len(m.buf):
		return nil, fault.New(fault.Protocol, "fragment: at %d, not %d", off, len(m.buf))
	case off+len(part) > total:
		return nil, fault.New(fault.Protocol, "fragment: ends at %d, beyond %d", off+len(part), total)
	case off+len(part) < total && len(part) < minFragment:
		return nil, fault.New(fault.Protocol, "fragment: %d bytes, fewer than %d", len(part), minFragment)
	}
	if m.buf = append(m.buf, part...); len(m.buf) < total {
		r.m = m
		return nil, nil
	}
	r.m = nil
	return m.buf, nil
}
