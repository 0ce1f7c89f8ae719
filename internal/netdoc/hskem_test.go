package netdoc

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cert"
	"github.com/chivenet/chive/internal/linkspec"
)

// TestHSKEM: the reference program's line is written and read, and the descriptor keeps its
// length with up to five introduction points.
func TestHSKEM(t *testing.T) {
	raw, err := os.ReadFile("../handshake/testdata/pq-onion-vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var v struct{ Onion []struct{ EK, Item string } }
	if err := json.Unmarshal(raw, &v); err != nil || len(v.Onion) == 0 {
		t.Fatal("no vectors", err)
	}
	unhex := func(s string) []byte {
		b, err := hex.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	_, signing, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range v.Onion {
		_, inner := hsService(t, 2)
		inner.KEM = unhex(o.EK)
		b, err := inner.encode(signing, time.Now())
		if err != nil || !bytes.Contains(b, append([]byte{'\n'}, unhex(o.Item)...)) {
			t.Fatalf("%v\n%s", err, b)
		}
		h, err := parseHSInner(b, cert.IdentityOf(signing))
		if err != nil || !bytes.Equal(h.KEM, inner.KEM) || len(h.Points) != 2 || h.PoW == nil {
			t.Errorf("%+v %v", h, err)
		}
	}
	for n := range 6 {
		keys, inner := hsService(t, n)
		inner.CGO = true              // whose line must fit, too
		for i := range inner.Points { // as long as those of relays with two addresses
			inner.Points[i].Specs = []linkspec.Spec{{Type: 0, Body: make([]byte, 6)}, {Type: 2, Body: make([]byte, 20)}, {Type: 3, Body: make([]byte, 32)}, {Type: 1, Body: make([]byte, 18)}}
		}
		var lengths []int
		for _, kem := range [][]byte{nil, make([]byte, HSKEMLen)} {
			inner.KEM = kem
			d, err := EncodeHSDescriptor(rand.Reader, keys, 5, inner, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			lengths = append(lengths, len(d.Text))
		}
		if lengths[0] != lengths[1] {
			t.Errorf("%d introduction points: %d bytes without the key, %d with it", n, lengths[0], lengths[1])
		}
		t.Logf("%d introduction points: %d bytes", n, lengths[1])
	}
}

// TestHSKEMRefused: a line that is wrong is never taken for none.
func TestHSKEMRefused(t *testing.T) {
	_, inner := hsService(t, 1)
	inner.KEM = make([]byte, HSKEMLen)
	_, signing, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	b, err := inner.encode(signing, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	from := strings.Index(text, hsKEMKeyword)
	item := text[from:strings.Index(text, "introduction-point")]
	short := string(AppendObject(nil, hsKEMObject, inner.KEM[1:]))
	for name, c := range map[string][2]string{
		"twice":          {item + item, "twice"},
		"no set":         {strings.Replace(item, " 2\n", "\n", 1), "parameter set"},
		"no object":      {hsKEMKeyword + " 2\n", "object"},
		"another object": {strings.ReplaceAll(item, hsKEMObject, "PUBLIC KEY"), "PUBLIC KEY"},
		"a short key":    {hsKEMKeyword + " 2\n" + short, "1183 bytes, not 1184"},
	} {
		if h, err := parseHSInner([]byte(text[:from]+c[0]+text[from+len(item):]), cert.IdentityOf(signing)); err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s: %+v %v", name, h, err)
		}
	}
	later := strings.Replace(text, hsKEMKeyword+" 2", hsKEMKeyword+" 9", 1)
	if h, err := parseHSInner([]byte(later), cert.IdentityOf(signing)); err != nil || h.KEM != nil || len(h.Points) != 1 {
		t.Errorf("a later version's: %+v %v", h, err)
	}
	inner.KEM = inner.KEM[1:]
	if _, err := inner.encode(signing, time.Now()); err == nil {
		t.Error("a short key was written")
	}
}

// TestHSCGO: the line about counter galois onion is written once, before the introduction
// points, and that of a later version is ignored.
func TestHSCGO(t *testing.T) {
	_, inner := hsService(t, 1)
	_, signing, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	without, err := inner.encode(signing, time.Now())
	if err != nil || bytes.Contains(without, []byte("cgo")) {
		t.Fatalf("%v\n%s", err, without)
	}
	inner.CGO = true
	b, err := inner.encode(signing, time.Now())
	text := string(b)
	if err != nil || strings.Count(text, "\nchive-cgo 1\n") != 1 {
		t.Fatalf("%v\n%s", err, text)
	}
	for name, c := range map[string]struct {
		text      string
		cgo, fail bool
	}{
		"once":                     {text, true, false},
		"never":                    {string(without), false, false},
		"with more":                {strings.Replace(text, "chive-cgo 1", "chive-cgo 1 2", 1), true, false},
		"twice":                    {strings.Replace(text, "chive-cgo 1\n", "chive-cgo 1\nchive-cgo 1\n", 1), false, true},
		"a later version's":        {strings.Replace(text, "chive-cgo 1", "chive-cgo 2", 1), false, false},
		"both versions'":           {strings.Replace(text, "chive-cgo 1\n", "chive-cgo 2\nchive-cgo 1\n", 1), true, false},
		"without a version":        {strings.Replace(text, "chive-cgo 1", "chive-cgo", 1), false, false},
		"in an introduction point": {string(without) + "chive-cgo 1\n", false, false},
		"of other programs":        {strings.Replace(text, "chive-cgo 1", "proto Relay=5-6", 1), false, false},
	} {
		h, err := parseHSInner([]byte(c.text), cert.IdentityOf(signing))
		if (err != nil) != c.fail || err == nil && h.CGO != c.cgo {
			t.Errorf("%s: %+v %v", name, h, err)
		}
	}
}
