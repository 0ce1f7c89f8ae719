package fte

import (
	"crypto/rand"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/fault"
)

func serverKeyFor(t testing.TB) *ServerKey {
	t.Helper()
	k, err := NewServerKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestKeyLines(t *testing.T) {
	k := serverKeyFor(t)
	old := serverKeyFor(t)
	keys, err := ParseServerKeys(strings.NewReader("# keys\n" + k.Line() + "\n\n" + old.Line() + "\n"))
	if err != nil || len(keys) != 2 || keys[1].Line() != old.Line() {
		t.Fatal("keys aren't read back:", err)
	}
	c, err := ParseCert(k.Cert().Line())
	if err != nil || c.Line() != k.Cert().Line() {
		t.Fatal("a certificate isn't read back:", err)
	}
	for _, bad := range []string{"", "chive-fte-cert-1:", "chive-fte-cert-1:AAAA", k.Line()} {
		if _, err := ParseCert(bad); !fault.Is(err, fault.Config) {
			t.Errorf("certificate %q: %v", bad, err)
		}
	}
	for _, bad := range []string{"", "#\n", "x\n", keyLine + "AAAA\n", strings.Repeat(k.Line()+"\n", maxKeys+1)} {
		if _, err := ParseServerKeys(strings.NewReader(bad)); !fault.Is(err, fault.Config) {
			t.Errorf("keys %q: %v", bad, err)
		}
	}
}

func FuzzParseCert(f *testing.F) {
	f.Add(serverKeyFor(f).Cert().Line())
	f.Add("chive-fte-cert-1:")
	f.Fuzz(func(t *testing.T, s string) {
		if c, err := ParseCert(s); err == nil {
			if again, err := ParseCert(c.Line()); err != nil || again.Line() != c.Line() {
				t.Fatal("a certificate isn't read back")
			}
		}
	})
}

func FuzzParseServerKeys(f *testing.F) {
	k := serverKeyFor(f).Line()
	f.Add("# a comment\n\n" + k + "\r\n" + k)
	f.Add("chive-fte-key-1:")
	f.Fuzz(func(t *testing.T, s string) {
		keys, err := ParseServerKeys(strings.NewReader(s))
		if err != nil {
			if !fault.Is(err, fault.Config) {
				t.Fatal(err)
			}
			return
		}
		again := ""
		for _, k := range keys {
			again += k.Line() + "\n"
		}
		if back, err := ParseServerKeys(strings.NewReader(again)); err != nil || len(back) != len(keys) || len(keys) > maxKeys {
			t.Fatalf("%d keys are read back as %d, %v", len(keys), len(back), err)
		}
	})
}
