package netdoc

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cert"
	"github.com/chivenet/chive/internal/ident"
)

// ctorTime is when the network of testdata/ctor ran.
var ctorTime = time.Date(2026, 11, 21, 14, 4, 0, 0, time.UTC)

func ctorDescs(t testing.TB) map[[20]byte]*RouterDesc {
	t.Helper()
	m := map[[20]byte]*RouterDesc{}
	ParseRouterDescs(read(t, "ctor/descriptors"), ctorTime, func(d *RouterDesc, err error) {
		if err != nil {
			t.Fatal(err)
		}
		m[d.Digest] = d
	})
	return m
}

func TestRealRouterDescs(t *testing.T) {
	descs := ctorDescs(t)
	c, err := ParseConsensus(read(t, "ctor/consensus-ns"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	micro, err := ParseConsensus(read(t, "ctor/consensus-microdesc"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range c.Routers {
		d := descs[r.Descriptor]
		if d == nil {
			t.Errorf("%s: no descriptor", r.Nickname)
			continue
		}
		if d.Nickname != r.Nickname || d.RSA != r.RSA || d.Addr != r.Addr || d.ORPort != r.ORPort || d.Proto != r.Proto || d.Ed.IsZero() || d.Ntor.IsZero() {
			t.Errorf("%+v", d)
		}
		// The authorities' microdescriptor can be made of the descriptor.
		md := Microdesc{Ntor: d.Ntor, Ed: d.Ed, Policy4: d.Policy.Summarize(false), Policy6: d.Policy6}
		var ids []string
		for _, id := range d.FamilyIDs {
			ids = append(ids, "ed25519:"+id.String())
		}
		if len(d.Family)+len(ids) > 0 {
			md.Family, err = parseFamily(Args(strings.Join(d.Family, " ")), Args(strings.Join(ids, " ")))
			if err != nil {
				t.Fatal(err)
			}
		}
		if text := md.AppendMicrodesc(nil, d.OnionKey); md.Digest != micro.Routers[i].Microdesc {
			t.Errorf("%s: another microdescriptor than the authorities':\n%s", d.Nickname, text)
		}
	}
}

func TestRealExtraInfos(t *testing.T) {
	descs := ctorDescs(t)
	n, belong := 0, 0
	ParseExtraInfos(read(t, "ctor/extrainfo"), ctorTime, func(e *ExtraInfo, err error) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		for _, d := range descs {
			if e.Belongs(d) {
				belong++
			}
		}
	})
	if n < 10 || belong < 10 {
		t.Errorf("%d documents, %d of them of a descriptor here", n, belong)
	}
}

func TestDescriptorTampered(t *testing.T) {
	for name, parse := range map[string]func([]byte) error{
		"ctor/descriptors": func(b []byte) error { _, err := ParseRouterDesc(b, ctorTime); return err },
		"ctor/extrainfo":   func(b []byte) error { _, err := ParseExtraInfo(b, ctorTime); return err },
	} {
		start := map[string]string{"ctor/descriptors": routerStart, "ctor/extrainfo": extraStart}[name]
		doc := trimAnnotation(splitDocs(read(t, name), start)[3])
		if err := parse(doc); err != nil {
			t.Fatal(err)
		}
		end := bytes.Index(doc, []byte("router-signature"))
		for i := 0; i < end; i += 13 {
			bad := bytes.Clone(doc)
			bad[i] ^= 1
			if parse(bad) == nil {
				t.Errorf("%s: offset %d: a changed document was accepted", name, i)
			}
			if parse(doc[:i]) == nil {
				t.Errorf("%s: truncated to %d", name, i)
			}
		}
	}
	doc := trimAnnotation(splitDocs(read(t, "ctor/descriptors"), routerStart)[3])
	if _, err := ParseRouterDesc(doc, ctorTime.AddDate(1, 0, 0)); err == nil {
		t.Error("expired certificates were accepted")
	}
}

func TestBadRouterDescs(t *testing.T) {
	files, err := os.ReadDir("testdata/arti/bad-routerdesc")
	if err != nil || len(files) < 8 {
		t.Fatal(err, len(files))
	}
	for _, f := range files {
		doc := read(t, "arti/bad-routerdesc/"+f.Name())
		if _, err := ParseRouterDesc(doc, time.Unix(0, 0)); err == nil { // before any certificate expires
			t.Errorf("%s was accepted", f.Name())
		} else {
			t.Logf("%s: %v", f.Name(), err)
		}
	}
}

// testKeys returns a relay's keys, of which one family key vouches for it.
func testKeys(t testing.TB, now time.Time, tap bool) (*DescKeys, ident.Ed25519ID) {
	t.Helper()
	_, master, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signing, err := cert.GenerateExpanded(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, family, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	k := DescKeys{Ed: cert.IdentityOf(master), Signing: signing}
	if k.Identity, err = rsa.GenerateKey(rand.Reader, 1024); err != nil {
		t.Fatal(err)
	}
	if tap {
		if k.Onion, err = rsa.GenerateKey(rand.Reader, 1024); err != nil {
			t.Fatal(err)
		}
	}
	rand.Read(k.NtorSecret[:])
	fc := cert.Ed25519{Type: cert.FamilyVIdentity, Expires: now.AddDate(0, 1, 0), KeyType: cert.KeyEd25519, Key: k.Ed, Signer: cert.IdentityOf(family), HasSigner: true}
	k.FamilyCerts = [][]byte{fc.Encode(cert.SignerOf(family))}
	return NewDescKeys(k, cert.SignerOf(master), now.AddDate(0, 1, 0)), cert.IdentityOf(family)
}

func TestRouterDescSign(t *testing.T) {
	for _, tap := range []bool{false, true} {
		for range 4 { // both signs of the ntor key
			keys, family := testKeys(t, ctorTime, tap)
			e, err := (&ExtraInfo{Nickname: "me", Published: ctorTime, Stats: []byte("dirreq-stats-end 2026-01-01 00:00:00 (86400 s)\n")}).Sign(rand.Reader, keys, ctorTime)
			if err != nil {
				t.Fatal(err)
			}
			rule, err := ParsePolicyRule(true, "192.0.2.0/24:80-90")
			if err != nil {
				t.Fatal(err)
			}
			d, err := (&RouterDesc{
				Nickname: "me", Addr: netip.MustParseAddr("192.0.2.1"), ORPort: 9001, DirPort: 80, ORAddrs: []netip.AddrPort{netip.MustParseAddrPort("[2001:db8::1]:9001")},
				Platform: "Chive on Linux", Proto: "Link=4-5 Relay=2-4", Published: ctorTime, Uptime: 77, BandwidthRate: 1 << 30, BandwidthBurst: 1 << 31, BandwidthObserved: 5,
				HasExtraInfo: true, ExtraInfo: e.Digest, ExtraInfoSHA256: e.SHA256, CachesExtraInfo: true, HSDir: true, TunnelledDir: true,
				Contact: "nobody\nrouter-signature", Family: []string{"$" + strings.Repeat("A", 40)}, Policy: ExitPolicy{rule, {Ports: AllPorts}},
				Policy6: &PortPolicy{Accept: true, Ranges: []PortRange{{443, 443}}},
			}).Sign(rand.Reader, keys, ctorTime)
			if err != nil {
				t.Fatal(err)
			}
			if !e.Belongs(d) || d.Contact != "nobody" || len(d.FamilyIDs) != 1 || d.FamilyIDs[0] != family || d.Ed != keys.Ed || d.RSA != RSADigest(&keys.Identity.PublicKey) || (d.OnionKey != nil) != tap || d.Policy[0] != rule || !d.Policy6.AllowsPort(443) || d.Uptime != 77 || len(d.ORAddrs) != 1 {
				t.Errorf("%+v", d)
			}
		}
	}
}

func FuzzRouterDesc(f *testing.F) {
	for i, one := range splitDocs(read(f, "ctor/descriptors"), routerStart) {
		if i < 3 {
			f.Add(trimAnnotation(one))
		}
	}
	seed(f, "arti/routerdesc1.txt", "arti/bad-routerdesc/bad-sig-order")
	f.Fuzz(func(t *testing.T, doc []byte) {
		ParseRouterDescs(doc, ctorTime, func(d *RouterDesc, err error) {
			if (d == nil) == (err == nil) {
				t.Fatal(d, err)
			}
		})
	})
}

func FuzzExtraInfo(f *testing.F) {
	f.Add(trimAnnotation(splitDocs(read(f, "ctor/extrainfo"), extraStart)[0]))
	f.Fuzz(func(t *testing.T, doc []byte) {
		ParseExtraInfos(doc, ctorTime, func(e *ExtraInfo, err error) {
			if (e == nil) == (err == nil) {
				t.Fatal(e, err)
			}
		})
	})
}
