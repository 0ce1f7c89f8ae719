package linkspec

import (
	"net/netip"
	"reflect"
	"testing"

	"github.com/chivenet/chive/internal/bin"
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

func TestTargetOfRefuses(t *testing.T) {
	rsa := Spec{TypeRSA, make([]byte, 20)}
	for name, specs := range map[string][]Spec{
		"no identity":   {{TypeIPv4, make([]byte, 6)}},
		"short address": {{TypeIPv4, make([]byte, 5)}, rsa},
		"long ed25519":  {rsa, {TypeEd25519, make([]byte, 33)}},
		"two RSA":       {rsa, rsa},
	} {
		if _, err := TargetOf(specs); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := TargetOf([]Spec{rsa, {77, []byte{1}}}); err != nil {
		t.Errorf("an unknown type must be passed over: %v", err)
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
