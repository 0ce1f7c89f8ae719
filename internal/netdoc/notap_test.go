package netdoc

import (
	"bytes"
	"testing"
)

// The documents of a network whose relays publish no TAP keys belong together as others
// do: signatures, digests, and a descriptor and a microdescriptor for each relay.
func TestWithoutTAPKeys(t *testing.T) {
	certs := certsOf(t, "ctor15/certs")
	descs := map[[20]byte]*RouterDesc{}
	ParseRouterDescs(read(t, "ctor15/descriptors"), ctor15Time, func(d *RouterDesc, err error) {
		if err != nil {
			t.Fatal(err)
		}
		descs[d.Digest] = d
	})
	micro := map[[32]byte]*Microdesc{}
	ParseMicrodescs(read(t, "ctor15/microdescs"), nil, func(md *Microdesc, text []byte, err error) {
		if err != nil {
			t.Fatal(err)
		}
		micro[md.Digest] = md
	})
	for _, name := range []string{"consensus-ns", "consensus-microdesc", "consensus-ns-old", "consensus-microdesc-old"} {
		c, err := ParseConsensus(read(t, "ctor15/"+name), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if v := c.Verify(identsOf(certs), func(kp KeyPair) *AuthCert { return certs[kp] }, c.ValidAfter); len(v.Valid) != 3 || c.Method != compactMethod || len(c.Routers) != 8 {
			t.Errorf("%s: %d signatures, method %d, %d relays", name, len(v.Valid), c.Method, len(c.Routers))
		}
		for _, r := range c.Routers {
			if c.Flavor == FlavorNS {
				if d := descs[r.Descriptor]; d == nil || d.RSA != r.RSA || (d.OnionKey != nil) != (r.Nickname == "relay3" && name == "consensus-ns") {
					t.Errorf("%s: the descriptor of %s: %+v", name, r.Nickname, d)
				}
			} else if md := micro[r.Microdesc]; md == nil || md.Ed.IsZero() {
				t.Errorf("%s: the microdescriptor of %s: %+v", name, r.Nickname, md)
			}
		}
	}
}

// The signatures of a descriptor without a TAP key cover all of it.
func TestWithoutTAPKeyTampered(t *testing.T) {
	for _, one := range splitDocs(read(t, "ctor15/descriptors"), routerStart) {
		doc := trimAnnotation(one)
		d, err := ParseRouterDesc(doc, ctor15Time)
		if err != nil {
			t.Fatal(err)
		}
		if d.OnionKey != nil {
			continue
		}
		for i := 0; i < bytes.Index(doc, []byte("router-signature")); i += 13 {
			bad := bytes.Clone(doc)
			bad[i] ^= 1
			if _, err := ParseRouterDesc(bad, ctor15Time); err == nil {
				t.Errorf("offset %d: a changed document was accepted", i)
			}
		}
		return
	}
	t.Error("no descriptor without a TAP key")
}
