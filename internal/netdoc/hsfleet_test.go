package netdoc

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cert"
)

// TestHSInnerWithoutNewline: OnionBalance's inner layer ends without a newline.
func TestHSInnerWithoutNewline(t *testing.T) {
	_, inner := hsService(t, 2)
	_, signing, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	b, err := inner.encode(signing, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	h, err := parseHSInner(bytes.TrimRight(b, "\n"), cert.IdentityOf(signing))
	if err != nil || len(h.Points) != 2 {
		t.Errorf("%+v %v", h, err)
	}
}

// TestHSFleet: the hosts' item goes there and back; one that is too long, or of a later
// version, is none; two are refused.
func TestHSFleet(t *testing.T) {
	_, inner := hsService(t, 2)
	_, signing, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	id := cert.IdentityOf(signing)
	inner.Fleet = bytes.Repeat([]byte{1, 2, 3}, 100)
	b, err := inner.encode(signing, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if h, err := parseHSInner(b, id); err != nil || !bytes.Equal(h.Fleet, inner.Fleet) || len(h.Points) != 2 {
		t.Errorf("%+v %v", h, err)
	}
	text := string(b)
	item := text[strings.Index(text, hsFleet):strings.Index(text, "introduction-point")]
	for what, c := range map[string]struct {
		with string
		ok   bool
	}{
		"a later version": {strings.Replace(item, hsFleet+" 1", hsFleet+" 2", 1), true},
		"no object":       {hsFleet + " 1\n", true},
		"too long":        {string(AppendObject([]byte(hsFleet+" 1\n"), hsMessage, make([]byte, MaxHSFleet+1))), true},
		"two":             {item + item, false},
	} {
		h, err := parseHSInner([]byte(strings.Replace(text, item, c.with, 1)), id)
		if (err == nil) != c.ok || err == nil && (h.Fleet != nil || len(h.Points) != 2) {
			t.Errorf("%s: %+v %v", what, h, err)
		}
	}
	inner.Fleet = make([]byte, MaxHSFleet+1)
	if _, err := inner.encode(signing, time.Now()); err == nil {
		t.Error("an item that is too long is made")
	}
}
