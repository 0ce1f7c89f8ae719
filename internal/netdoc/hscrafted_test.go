package netdoc

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cert"
	"github.com/chivenet/chive/internal/ident"
)

var craftedAt = time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)

// crafted is a descriptor that a hostile service makes: it may write what it likes into each
// layer, and signs it.
type crafted struct {
	t       *testing.T
	keys    *HSKeys
	signing ed25519.PrivateKey
	layer   hsLayer
	inner   string // as it should be
}

func newCrafted(t *testing.T) *crafted {
	t.Helper()
	keys, inner := hsService(t, 2)
	_, signing, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	b, err := inner.encode(signing, craftedAt.Add(hsSigningLife))
	if err != nil {
		t.Fatal(err)
	}
	return &crafted{t, keys, signing, hsLayer{blinded: keys.Blinded.Public(), subcredential: keys.Subcredential, revision: 1}, string(b)}
}

// seal encrypts a layer.
func (c *crafted) seal(constant, plain string) []byte {
	c.t.Helper()
	b, err := c.layer.seal(rand.Reader, constant, nil, []byte(plain))
	if err != nil {
		c.t.Fatal(err)
	}
	return b
}

// middle is the middle layer around an encrypted one.
func (c *crafted) middle(encrypted []byte) string {
	b := "desc-auth-type x25519\ndesc-auth-ephemeral-key " + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{9}, 32)) + "\n"
	b += "auth-client AAAAAAAAAAA AAAAAAAAAAAAAAAAAAAAAA AAAAAAAAAAAAAAAAAAAAAA\n"
	return string(AppendObject([]byte(b+"encrypted\n"), hsMessage, encrypted))
}

// open signs a descriptor around an object and reads it as a client does.
func (c *crafted) open(superencrypted string) (*HSInner, error) {
	expires := craftedAt.Add(hsSigningLife)
	x := cert.Ed25519{Type: cert.BlindedVSigning, Expires: expires, KeyType: cert.KeyEd25519, Key: cert.IdentityOf(c.signing), Signer: c.layer.blinded, HasSigner: true}
	b := AppendObject([]byte("hs-descriptor 3\ndescriptor-lifetime 180\ndescriptor-signing-key-cert\n"), edCertObject, x.Encode(c.keys.Blinded.Sign))
	b = append(b, "revision-counter "+strconv.Itoa(1)+"\n"+superencrypted...)
	sig := ed25519.Sign(c.signing, append([]byte(hsSigPrefix), b...))
	b = fmt.Appendf(b, "signature %s\n", base64.RawStdEncoding.EncodeToString(sig))
	d, err := ParseHSDescriptor(b, craftedAt)
	if err != nil {
		return nil, err
	}
	return d.Open(c.layer.subcredential, nil)
}

func (c *crafted) outer(sealed []byte) string {
	return string(AppendObject([]byte("superencrypted\n"), hsMessage, sealed))
}

// TestHSCrafted: nothing that a hostile service can write into any layer of its descriptor does
// more to a client than to be refused.
func TestHSCrafted(t *testing.T) {
	c := newCrafted(t)
	good := c.middle(c.seal(hsInnerConstant, c.inner))
	sealed := c.seal(hsOuterConstant, good)
	if h, err := c.open(c.outer(sealed)); err != nil || len(h.Points) != 2 {
		t.Fatal(h, err)
	}
	refused := func(name, superencrypted string) {
		t.Run(name, func(t *testing.T) {
			if h, err := c.open(superencrypted); err == nil {
				t.Errorf("it is taken: %+v", h)
			}
		})
	}
	// The outer layer.
	refused("no object", "superencrypted\n")
	refused("no such item", "")
	refused("another object", string(AppendObject([]byte("superencrypted\n"), "MESSAGES", sealed)))
	for n := range hsMinLayer + 1 {
		refused(fmt.Sprintf("a layer of %d bytes", n), c.outer(sealed[:n]))
		refused(fmt.Sprintf("an inner layer of %d bytes", n), c.outer(c.seal(hsOuterConstant, c.middle(sealed[:n]))))
	}
	// The middle layer.
	for name, plain := range map[string]string{
		"empty": "", "NULs": strings.Repeat("\x00", hsPadTo), "a NUL first": "\x00" + good, "a newline": "\n", "a NUL in it": strings.Replace(good, "x25519", "x25\x00519", 1),
		"no type": good[strings.IndexByte(good, '\n')+1:], "another type": strings.Replace(good, "x25519", "x448", 1), "a type without a name": strings.Replace(good, " x25519", "", 1),
		"twice": good + good, "no arguments": strings.Replace(good, "auth-client AAAAAAAAAAA AAAAAAAAAAAAAAAAAAAAAA AAAAAAAAAAAAAAAAAAAAAA", "auth-client", 1),
		"one argument":   strings.Replace(good, "auth-client AAAAAAAAAAA AAAAAAAAAAAAAAAAAAAAAA AAAAAAAAAAAAAAAAAAAAAA", "auth-client AAAAAAAAAAA", 1),
		"a short cookie": strings.Replace(good, "AAAAAAAAAAAAAAAAAAAAAA\n", "AAAA\n", 1), "no client": strings.Replace(good, "auth-client", "auth-friend", 1),
		"no ephemeral key": strings.Replace(good, "desc-auth-ephemeral-key", "desc-auth-other-key", 1), "a short key": strings.Replace(good, "CQkJ", "CQ", 1),
		"another object": strings.ReplaceAll(good, "MESSAGE", "MASSAGE"), "an object that does not end": good[:len(good)-10],
	} {
		refused("middle/"+name, c.outer(c.seal(hsOuterConstant, plain)))
	}
	// The inner layer.
	for name, plain := range map[string]string{
		"empty": "", "NULs": strings.Repeat("\x00", 100), "a newline": "\n", "a NUL first": "\x00" + c.inner, "no formats": "create2-formats\n",
		"points alone": c.inner[strings.Index(c.inner, "introduction-point"):], "formats twice": "create2-formats 2\n" + c.inner,
		"flow control of nothing": strings.Replace(c.inner, "flow-control 1-2 31", "flow-control", 1), "no increment": strings.Replace(c.inner, "flow-control 1-2 31", "flow-control 1-2", 1),
		"a negative increment": strings.Replace(c.inner, "flow-control 1-2 31", "flow-control 1-2 -1", 1),
		"work without effort":  "create2-formats 2\npow-params v1 " + strings.Repeat("A", 43) + "\n", "work without time": "create2-formats 2\npow-params v1 " + strings.Repeat("A", 43) + " 7\n",
		"an effort above":  "create2-formats 2\npow-params v1 " + strings.Repeat("A", 43) + " 4294967296 2026-01-02T03:04:05\n",
		"a time of no day": "create2-formats 2\npow-params v1 " + strings.Repeat("A", 43) + " 7 2026-02-31T03:04:05\n",
	} {
		if plain == "" {
			continue // such a layer is too short, as above
		}
		refused("inner/"+name, c.outer(c.seal(hsOuterConstant, c.middle(c.seal(hsInnerConstant, plain)))))
	}
}

// TestHSCraftedPoints: introduction points that no client can use are left out, and the others
// stay.
func TestHSCraftedPoints(t *testing.T) {
	c := newCrafted(t)
	_, other, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	small := ident.X25519Key{1}
	write := func(change func(*HSIntroPoint), signing ed25519.PrivateKey) string {
		p := HSIntroPoint{Specs: nil, Onion: ident.X25519Key{7}, Auth: ident.Ed25519ID{8}, Enc: ident.X25519Key(newClient(t).PublicKey().Bytes())}
		change(&p)
		b, err := p.append(nil, signing, craftedAt.Add(hsSigningLife))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	plain := write(func(*HSIntroPoint) {}, c.signing)
	without := func(line string) string {
		i := strings.Index(plain, "\n"+line) + 1
		j := i + strings.IndexByte(plain[i:], '\n') + 1
		if strings.HasPrefix(plain[j:], "-----BEGIN") {
			j += strings.Index(plain[j:], "-----END") + len("-----END ED25519 CERT-----\n")
		}
		return plain[:i] + plain[j:]
	}
	for name, x := range map[string]struct {
		text string
		kept int
	}{
		"usable":                    {plain, 3},
		"zeros as the onion key":    {write(func(p *HSIntroPoint) { p.Onion = ident.X25519Key{} }, c.signing), 2},
		"an onion key, small order": {write(func(p *HSIntroPoint) { p.Onion = small }, c.signing), 2},
		"zeros to encrypt for":      {write(func(p *HSIntroPoint) { p.Enc = ident.X25519Key{} }, c.signing), 2},
		"a key, small order":        {write(func(p *HSIntroPoint) { p.Enc = small }, c.signing), 2},
		"zeros to authenticate by":  {write(func(p *HSIntroPoint) { p.Auth = ident.Ed25519ID{} }, c.signing), 2},
		"another signer":            {write(func(*HSIntroPoint) {}, other), 2},
		"a name alone":              {"introduction-point\n", 2},
		"no argument":               {strings.Replace(plain, "introduction-point AA==", "introduction-point", 1), 2},
		"no onion key":              {without("onion-key"), 2},
		"no auth key":               {without("auth-key"), 2},
		"no enc key":                {without("enc-key "), 2},
		"no enc key's certificate":  {without("enc-key-cert"), 2},
		"an empty onion key":        {strings.Replace(plain, "onion-key ntor ", "onion-key ntor \nmore ", 1), 2},
		"certificates exchanged":    {strings.NewReplacer("auth-key", "enc-key-cert", "enc-key-cert", "auth-key").Replace(plain), 2},
		"an empty certificate":      {without("auth-key") + "auth-key\n-----BEGIN ED25519 CERT-----\n-----END ED25519 CERT-----\n", 2},
		"no object":                 {without("auth-key") + "auth-key\n", 2},
	} {
		t.Run(name, func(t *testing.T) {
			h, err := c.open(c.outer(c.seal(hsOuterConstant, c.middle(c.seal(hsInnerConstant, c.inner+x.text)))))
			if err != nil || len(h.Points) != x.kept {
				t.Errorf("%+v, %v", h, err)
			}
		})
	}
}

// TestHSLayerTampered: a change of any bit of a layer shows.
func TestHSLayerTampered(t *testing.T) {
	c := newCrafted(t)
	sealed := c.seal(hsOuterConstant, "a text")
	if b, err := c.layer.open(hsOuterConstant, nil, sealed); err != nil || string(b) != "a text" {
		t.Fatalf("%q, %v", b, err)
	}
	for i := range 8 * len(sealed) {
		b := bytes.Clone(sealed)
		b[i/8] ^= 1 << (i % 8)
		if _, err := c.layer.open(hsOuterConstant, nil, b); err == nil {
			t.Errorf("bit %d", i)
		}
	}
}

// TestHSClientsShuffled: the place of an authorized client's line tells nothing.
func TestHSClientsShuffled(t *testing.T) {
	c := newCrafted(t)
	key := newClient(t)
	places := map[int]bool{}
	for range 40 {
		b, err := c.layer.encodeMiddle(rand.Reader, []byte("x"), []ident.X25519Key{ident.X25519Key(key.PublicKey().Bytes())})
		if err != nil {
			t.Fatal(err)
		}
		m, err := parseHSMiddle(b)
		if err != nil {
			t.Fatal(err)
		}
		id, _, err := c.layer.cookieKeys(key, m.ephemeral)
		if err != nil {
			t.Fatal(err)
		}
		for i := range m.clients {
			if m.clients[i].id == id {
				places[i] = true
			}
		}
	}
	if len(places) < 4 {
		t.Errorf("the line has %d places", len(places))
	}
}
