package circuit

import (
	"testing"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/flow"
	"github.com/chivenet/chive/internal/handshake"
)

// TestAnswerToWhat: a client takes an answer about congestion control only if it has asked for
// that, and CGO only with it.
func TestAnswerToWhat(t *testing.T) {
	p := flow.DefaultParams()
	p.SendmeInc = 31
	for name, c := range map[string]struct {
		cc, cgo bool // asked for
		exts    []cell.Ext
		ok      bool
		inc     int
		layer   *relayCrypto
	}{
		"nothing":                           {false, false, nil, true, 0, tor1},
		"an answer that nobody asked for":   {false, false, []cell.Ext{cell.CCResponse(31)}, false, 0, nil},
		"congestion control":                {true, false, []cell.Ext{cell.CCResponse(31)}, true, 31, tor1},
		"a refusal":                         {true, false, nil, true, 0, tor1},
		"one more":                          {true, false, []cell.Ext{cell.CCResponse(32)}, true, 32, tor1},
		"two more":                          {true, false, []cell.Ext{cell.CCResponse(33)}, false, 0, nil},
		"zero":                              {true, false, []cell.Ext{cell.CCResponse(0)}, false, 0, nil},
		"CGO":                               {true, true, []cell.Ext{cell.CCResponse(31)}, true, 31, cgo},
		"CGO and no congestion control":     {true, true, nil, false, 0, nil},
		"an increment of no length":         {true, false, []cell.Ext{{Type: cell.ExtCCResponse}}, false, 0, nil},
		"another extension, of a later tor": {true, true, []cell.Ext{cell.CCResponse(31), {Type: 77}}, true, 31, cgo},
	} {
		hs := &clientHandshake{kind: handshake.NtorV3, cc: c.cc, cgo: c.cgo, opts: HopOptions{Flow: &p}}
		got := terms{crypto: tor1}
		err := hs.negotiated(cell.AppendExts(nil, c.exts), &got)
		if (err == nil) != c.ok || err != nil && !fault.Is(err, fault.Protocol) || c.ok && (got.inc != c.inc || got.crypto != c.layer) {
			t.Errorf("%s: %v, increment %d, %v", name, err, got.inc, got.crypto.name)
		}
	}
}

// TestRelayTerms: a relay makes no CGO without congestion control, by which nobody could refill
// the windows, and fails the handshake of a client that asks for it.
func TestRelayTerms(t *testing.T) {
	p := flow.DefaultParams()
	p.SendmeInc = 31
	for name, c := range map[string]struct {
		exts  []cell.Ext
		ok    bool
		inc   int
		layer *relayCrypto
	}{
		"nothing":                         {nil, true, 0, tor1},
		"congestion control":              {[]cell.Ext{cell.CCRequest()}, true, 31, tor1},
		"both":                            {[]cell.Ext{cell.CCRequest(), RequestCGO()}, true, 31, cgo},
		"CGO alone":                       {[]cell.Ext{RequestCGO()}, false, 0, nil},
		"a subprotocol that nobody knows": {[]cell.Ext{cell.CCRequest(), cell.SubprotoRequest(cell.Subproto{Protocol: cell.SubprotoRelay, Version: 60})}, false, 0, nil},
	} {
		s := &Server{cfg: ServerConfig{Flow: func() *flow.Params { return &p }}}
		got := terms{crypto: tor1}
		_, err := s.negotiate(cell.AppendExts(nil, c.exts), &got)
		if (err == nil) != c.ok || err != nil && !fault.Is(err, fault.Protocol) || c.ok && (got.inc != c.inc || got.crypto != c.layer) {
			t.Errorf("%s: %v, increment %d, %v", name, err, got.inc, got.crypto.name)
		}
	}
}
