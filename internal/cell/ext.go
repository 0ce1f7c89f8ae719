package cell

import (
	"github.com/chivenet/chive/internal/bin"
	"github.com/chivenet/chive/internal/fault"
)

// Types of extension fields in the messages of an ntor-v3 handshake. Requests
// and responses have number spaces of their own. Where a type is there more than
// once, the first counts (proposal 324, rend-spec): FindExt returns it.
const (
	ExtCCRequest       = 1 // request: congestion control (proposal 324); no body
	ExtCCResponse      = 2 // response: congestion control; the SENDME increment, one byte
	ExtSubprotoRequest = 3 // request: subprotocol capabilities (proposal 346)
)

// Ext is one extension field.
type Ext struct {
	Type uint8
	Body []byte
}

// AppendExts writes a list of extension fields.
func AppendExts(dst []byte, exts []Ext) []byte {
	if len(exts) > 255 {
		panic("cell: more than 255 extensions")
	}
	dst = append(dst, byte(len(exts)))
	for _, e := range exts {
		dst = append(dst, e.Type)
		dst = appendVec8(dst, "extension", e.Body)
	}
	return dst
}

// ParseExts reads a list that fills b: bytes behind it are refused. Unknown and
// repeated types are returned.
func ParseExts(b []byte) ([]Ext, error) {
	r := bin.NewReader("extensions", b)
	exts := ReadExts(&r)
	if err := r.End(); err != nil {
		return nil, err
	}
	return exts, nil
}

// ReadExts reads a list out of a longer message.
func ReadExts(r *bin.Reader) []Ext {
	n := int(r.U8())
	exts := make([]Ext, 0, min(n, 8))
	for range n {
		exts = append(exts, Ext{Type: r.U8(), Body: r.Vec8()})
		if r.Err() != nil {
			return nil
		}
	}
	return exts
}

// FindExt returns the body of the first field of a type.
func FindExt(exts []Ext, typ uint8) ([]byte, bool) {
	for _, e := range exts {
		if e.Type == typ {
			return e.Body, true
		}
	}
	return nil, false
}

// CCRequest asks for congestion control.
func CCRequest() Ext { return Ext{Type: ExtCCRequest} }

// CCResponse grants congestion control with a SENDME every increment cells.
func CCResponse(increment uint8) Ext { return Ext{ExtCCResponse, []byte{increment}} }

// ParseCCResponse reads the body of a response: the SENDME increment in cells,
// never 0. The caller compares it with the consensus's cc_sendme_inc.
func ParseCCResponse(body []byte) (uint8, error) {
	r := bin.NewReader("congestion control response", body)
	n := r.U8()
	if n == 0 {
		r.Fail("SENDME increment of 0")
	}
	return n, r.Err()
}

// Numbers of subprotocols in a subprotocol request (tor-spec, "Subprotocol
// versioning").
const (
	SubprotoLink      = 0
	SubprotoLinkAuth  = 1
	SubprotoRelay     = 2
	SubprotoDirCache  = 3
	SubprotoHSDir     = 4
	SubprotoHSIntro   = 5
	SubprotoHSRend    = 6
	SubprotoDesc      = 7
	SubprotoMicrodesc = 8
	SubprotoCons      = 9
	SubprotoPadding   = 10
	SubprotoFlowCtrl  = 11
	SubprotoConflux   = 12
)

// Subproto is one capability: a subprotocol's number and version.
type Subproto struct{ Protocol, Version uint8 }

func (a Subproto) less(b Subproto) bool {
	return a.Protocol < b.Protocol || a.Protocol == b.Protocol && a.Version < b.Version
}

// SubprotoRequest asks for capabilities such as CGO ({SubprotoRelay, 6}). They
// must be sorted and distinct; anything else is a bug of the caller and panics.
func SubprotoRequest(caps ...Subproto) Ext {
	body := make([]byte, 0, 2*len(caps))
	for i, c := range caps {
		if i > 0 && !caps[i-1].less(c) {
			panic("cell: subprotocol request is not sorted")
		}
		body = append(body, c.Protocol, c.Version)
	}
	return Ext{ExtSubprotoRequest, body}
}

// ParseSubprotoRequest reads the body of a request. A list that is not sorted or
// names a capability twice is refused, as the specification asks.
func ParseSubprotoRequest(body []byte) ([]Subproto, error) {
	r := bin.NewReader("subprotocol request", body)
	caps := make([]Subproto, 0, len(body)/2)
	for r.Len() > 0 {
		caps = append(caps, Subproto{r.U8(), r.U8()})
		if n := len(caps); n > 1 && r.Err() == nil && !caps[n-2].less(caps[n-1]) {
			return nil, fault.New(fault.Protocol, "subprotocol request: not sorted, or a capability is there twice")
		}
	}
	if r.Err() != nil {
		return nil, r.Err()
	}
	return caps, nil
}
