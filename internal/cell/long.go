package cell

import "github.com/chivenet/chive/internal/bin"

// Long messages (docs/spec/pq-circuits.md, section 4) have the bodies of CREATE2,
// CREATED2, EXTEND2 and EXTENDED2. They are not padded: where those end, nothing
// may follow. None is longer than MaxLong.

// ParseLongCreate2 reads the body of a LONG_CREATE2 cell.
func ParseLongCreate2(b []byte) (Create2, error) { return parseLong("LONG_CREATE2", b, readCreate2) }

// ParseLongCreated2 reads the body of a LONG_CREATED2 cell.
func ParseLongCreated2(b []byte) (Created2, error) {
	return parseLong("LONG_CREATED2", b, func(r *bin.Reader) Created2 { return Created2{Data: r.Vec16()} })
}

// ParseLongExtend2 reads a LONG_EXTEND2 that was put together.
func ParseLongExtend2(b []byte) (Extend2, error) {
	return parseLong("LONG_EXTEND2", b, func(r *bin.Reader) Extend2 { return readExtend2(r, b) })
}

// ParseLongExtended2 reads a LONG_EXTENDED2 that was put together.
func ParseLongExtended2(b []byte) (Extended2, error) {
	return parseLong("LONG_EXTENDED2", b, func(r *bin.Reader) Extended2 { return Extended2{Data: r.Vec16()} })
}

func parseLong[M any](what string, b []byte, read func(*bin.Reader) M) (M, error) {
	r := bin.NewReader(what, b)
	if len(b) > MaxLong {
		r.Fail("%d bytes, more than %d", len(b), MaxLong)
	}
	m := read(&r)
	if err := r.End(); err != nil {
		var none M
		return none, err
	}
	return m, nil
}
