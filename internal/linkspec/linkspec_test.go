package linkspec

import (
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"github.com/chivenet/chive/internal/bin"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

func target() Target {
	return Target{
		RelayID: ident.RelayID{RSA: ident.RSAID{1, 2}, Ed: ident.Ed25519ID{3}},
		Addrs:   []netip.AddrPort{netip.MustParseAddrPort("127.1.0.1:9001"), netip.MustParseAddrPort("[2001:db8::1]:443")},
	}
}

func TestRoundTrip(t *testing.T) {
	want := target()
	specs := want.Specs()
	if len(specs) != 4 || specs[0].Type != TypeIPv4 || specs[1].Type != TypeRSA || specs[2].Type != TypeEd25519 || specs[3].Type != TypeIPv6 {
		t.Fatalf("order: %v", specs)
	}
	r := bin.NewReader("specs", Append(nil, specs))
	got, err := TargetOf(Read(&r))
	if err != nil || r.End() != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v, %v", got, err)
	}
}

// TestOneAddress: of two addresses that of IPv4 is left, wherever it stands, and the only one of another family.
func TestOneAddress(t *testing.T) {
	both := target()
	six := both.Addrs[1]
	turned := Target{RelayID: both.RelayID, Addrs: []netip.AddrPort{six, both.Addrs[0]}}
	alone := Target{RelayID: both.RelayID, Addrs: []netip.AddrPort{six}}
	for _, c := range []struct {
		t    Target
		want []netip.AddrPort
	}{{both, both.Addrs[:1]}, {turned, both.Addrs[:1]}, {alone, alone.Addrs}, {Target{}, nil}} {
		if got := c.t.OneAddress(); !slices.Equal(got.Addrs, c.want) || got.RelayID != c.t.RelayID {
			t.Errorf("%v: %v", c.t.Addrs, got.Addrs)
		}
	}
	if len(both.Addrs) != 2 || turned.Addrs[0] != six {
		t.Error("the target has changed")
	}
}

func TestTargetOfRefuses(t *testing.T) {
	rsa := Spec{TypeRSA, append(make([]byte, 19), 1)}
	ed := Spec{TypeEd25519, append(make([]byte, 31), 1)}
	four := Spec{TypeIPv4, []byte{192, 0, 2, 1, 1, 1}}
	mapped := netip.MustParseAddr("::ffff:192.0.2.1").As16()
	for name, specs := range map[string][]Spec{
		"no identity":       {four, ed},
		"RSA of zeros":      {four, {TypeRSA, make([]byte, 20)}, ed},
		"short address":     {{TypeIPv4, make([]byte, 5)}, rsa},
		"long ed25519":      {four, rsa, {TypeEd25519, make([]byte, 33)}},
		"two RSA":           {four, rsa, rsa},
		"two ed25519":       {four, rsa, ed, ed},
		"no address":        {rsa, ed},
		"port 0":            {{TypeIPv4, []byte{192, 0, 2, 1, 0, 0}}, rsa},
		"0.0.0.0":           {{TypeIPv4, []byte{0, 0, 0, 0, 1, 1}}, rsa},
		"IPv6 that is IPv4": {{TypeIPv6, append(mapped[:], 1, 1)}, rsa},
		"too many":          append([]Spec{four, rsa}, make([]Spec, MaxSpecs)...),
	} {
		if got, err := TargetOf(specs); !fault.Is(err, fault.Protocol) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for name, specs := range map[string][]Spec{
		"an unknown type":     {four, rsa, {77, []byte{1}}},
		"as many as may be":   append([]Spec{four, rsa}, slices.Repeat([]Spec{{77, nil}}, MaxSpecs-2)...),
		"an ed25519 of zeros": {four, rsa, {TypeEd25519, make([]byte, 32)}},
	} {
		if _, err := TargetOf(specs); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOneAddressEach: of many addresses, the first that a relay can have of each
// family is used, whatever code made the target.
func TestOneAddressEach(t *testing.T) {
	want := target()
	var specs []Spec
	for range 4 {
		specs = append(specs, want.Specs()[0], want.Specs()[3])
		want.Addrs = append(want.Addrs, netip.MustParseAddrPort("127.1.0.2:9001"), netip.MustParseAddrPort("[2001:db8::2]:443"))
	}
	got, err := TargetOf(append(specs, want.Specs()[1]))
	if err != nil || !slices.Equal(got.Addrs, target().Addrs) {
		t.Errorf("of an EXTEND2: %v, %v", got.Addrs, err)
	}
	if got := want.Reach(); !slices.Equal(got, target().Addrs) {
		t.Errorf("of a target: %v", got)
	}
}

func FuzzRead(f *testing.F) {
	tg := target()
	f.Add(Append(nil, tg.Specs()))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bin.NewReader("specs", b)
		specs := Read(&r)
		if r.Err() != nil {
			return
		}
		if again := Append(nil, specs); string(again) != string(b[:r.Offset()]) {
			t.Fatalf("%x became %x", b, again)
		}
		_, _ = TargetOf(specs)
	})
}
