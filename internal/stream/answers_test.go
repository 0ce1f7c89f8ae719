package stream

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/cell"
)

// TestAnswers: of what an exit answers a lookup, the program gets what it asked
// for, in one form, and for a time that has a bound.
func TestAnswers(t *testing.T) {
	four, six := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	name := func(s string) cell.Answer { return cell.Answer{Type: cell.AnswerHostname, Text: []byte(s), TTL: 60} }
	addr := func(a netip.Addr, ttl uint32) cell.Answer {
		if a.Is4() {
			return cell.Answer{Type: cell.AnswerIPv4, Addr: a, TTL: ttl}
		}
		return cell.Answer{Type: cell.AnswerIPv6, Addr: a, TTL: ttl}
	}
	all := cell.Resolved{addr(four, 60), addr(six, 1<<32-1), name("host.example")}
	for what, x := range map[string]struct {
		in      cell.Resolved
		reverse bool
		want    []Answer // nil: an error
	}{
		"for a name":             {all, false, []Answer{{Addr: four, TTL: 60}, {Addr: six, TTL: maxTTL}}},
		"for an address":         {all, true, []Answer{{Name: "host.example", TTL: 60}}},
		"a mapped address":       {cell.Resolved{addr(netip.MustParseAddr("::ffff:192.0.2.1"), 0)}, false, []Answer{{Addr: four}}},
		"a name for a name":      {cell.Resolved{name("host.example")}, false, nil},
		"an address for one":     {cell.Resolved{addr(four, 60)}, true, nil},
		"an empty name":          {cell.Resolved{name("")}, true, nil},
		"a name with an escape":  {cell.Resolved{name("a\x1b[2Jb")}, true, nil},
		"a name with a zero":     {cell.Resolved{name("a\x00b")}, true, nil},
		"a name with a space":    {cell.Resolved{name("a b"), name("b")}, true, []Answer{{Name: "b", TTL: 60}}},
		"a label that is long":   {cell.Resolved{name(strings.Repeat("a", 64))}, true, nil},
		"nothing":                {nil, false, nil},
		"an error beside others": {append(slices.Clone(all), cell.Answer{Type: cell.AnswerErrorTransient}), false, nil},
		"an unknown type":        {cell.Resolved{{Type: 77, Text: []byte("x")}}, false, nil},
	} {
		got, err := answers(x.in, x.reverse)
		if !slices.Equal(got, x.want) || (err == nil) != (x.want != nil) {
			t.Errorf("%s: %v %v", what, got, err)
		}
	}
}
