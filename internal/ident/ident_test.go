package ident

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
)

const moria1 = "F533C81CEF0BC0267857C99B2F471ADF249FA232"

func TestParseRSAID(t *testing.T) {
	for _, s := range []string{moria1, "$" + moria1, strings.ToLower(moria1), "F533 C81C EF0B C026 7857  C99B 2F47 1ADF 249F A232"} {
		id, err := ParseRSAID(s)
		if err != nil || id.String() != moria1 {
			t.Errorf("%q: %v %v", s, id, err)
		}
	}
	for _, s := range []string{"", "F533", moria1 + "00", strings.Repeat("Z", 40)} {
		if id, err := ParseRSAID(s); err == nil || !id.IsZero() {
			t.Errorf("%q was accepted", s)
		}
	}
}

func TestParseEd25519ID(t *testing.T) {
	const s = "5XEJ1ptyqLJMdJNAvLKXJ8Om7bBLTd6zd4ceNcdCUN0"
	for _, in := range []string{s, s + "="} {
		id, err := ParseEd25519ID(in)
		if err != nil || id.String() != s {
			t.Errorf("%q: %v %v", in, id, err)
		}
	}
	for _, in := range []string{"", s[:40], s + "AAAA", "!" + s[1:]} {
		if _, err := ParseEd25519ID(in); err == nil {
			t.Errorf("%q was accepted", in)
		}
	}
}

func TestMatches(t *testing.T) {
	r, _ := ParseRSAID(moria1)
	full := RelayID{RSA: r, Ed: Ed25519ID{1}}
	if !(RelayID{RSA: r}).Matches(full) || !full.Matches(full) || !(RelayID{Ed: Ed25519ID{1}}).Matches(full) {
		t.Error("a part of the identities must match")
	}
	if full.Matches(RelayID{RSA: r}) || (RelayID{}).Matches(full) || (RelayID{RSA: r, Ed: Ed25519ID{2}}).Matches(full) {
		t.Error("a missing or other identity must not match")
	}
}

func TestRedaction(t *testing.T) {
	r, _ := ParseRSAID(moria1)
	addr := Hide(netip.MustParseAddrPort("192.0.2.7:9001"))
	var b bytes.Buffer
	slog.New(slog.NewTextHandler(&b, nil)).Info("x", "addr", addr, "relay", RelayID{RSA: r}, "text", fmt.Sprintf("%v %+v %#v %s %q %d", addr, addr, addr, addr, addr, addr))
	if s := b.String(); strings.Contains(s, "192.0.2") || strings.Contains(s, moria1) {
		t.Fatalf("leaked: %s", s)
	}
	if s := fmt.Sprintf("%v,%d", addr, addr); s != "[scrubbed],[scrubbed]" {
		t.Errorf("%q stands for it", s)
	}
	if addr.Value().Port() != 9001 {
		t.Fatal("the value is lost")
	}
}
