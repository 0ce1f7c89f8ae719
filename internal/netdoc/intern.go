package netdoc

import "github.com/chivenet/chive/internal/protover"

// Interner keeps one copy of values that many relays share: versions,
// subprotocol lists, port policies, families. The zero value is ready to use. A
// nil Interner copies without sharing. It is not safe for concurrent use.
type Interner struct {
	texts    map[string]string
	protos   map[string]protover.Set
	policies map[string]*PortPolicy
	families map[string]*Family
	key      []byte // scratch
}

// maxInterned bounds each table: hostile documents could otherwise fill the
// tables with strings that nothing uses any more.
const maxInterned = 1 << 16

func put[T any](m *map[string]T, key []byte, v T) T {
	if *m == nil || len(*m) >= maxInterned {
		*m = make(map[string]T)
	}
	(*m)[string(key)] = v
	return v
}

func (in *Interner) text(b []byte) string {
	if in == nil {
		return string(b)
	}
	if s, ok := in.texts[string(b)]; ok {
		return s
	}
	return put(&in.texts, b, string(b))
}

func (in *Interner) proto(b []byte) (protover.Set, error) {
	if in != nil {
		if s, ok := in.protos[string(b)]; ok {
			return s, nil
		}
	}
	s, err := protover.Parse(string(b))
	if err != nil || in == nil {
		return s, err
	}
	return put(&in.protos, b, s), nil
}

func (in *Interner) policy(b Args) (*PortPolicy, error) {
	if in != nil {
		if p, ok := in.policies[string(b)]; ok {
			return p, nil
		}
	}
	p, err := ParsePortPolicy(b)
	if err != nil || in == nil {
		return p, err
	}
	return put(&in.policies, b, p), nil
}
