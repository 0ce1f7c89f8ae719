package netdoc

import (
	"bytes"
	"testing"
)

// Signatures taken off C tor's consensuses and put back make the same text.
func TestDetachAttach(t *testing.T) {
	nsDoc, mdDoc := read(t, "ctor/consensus-ns"), read(t, "ctor/consensus-microdesc")
	ns, err := ParseConsensus(nsDoc, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	md, err := ParseConsensus(mdDoc, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	text := Detach(ns, md).Append(nil)
	d, err := ParseDetachedSignatures(text)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(d.Append(nil), text) || len(d.Signatures) != 6 {
		t.Errorf("%d signatures:\n%s", len(d.Signatures), d.Append(nil))
	}
	for _, c := range []struct {
		c   *Consensus
		doc []byte
	}{{ns, nsDoc}, {md, mdDoc}} {
		c.c.Signatures = c.c.Signatures[1:2]
		if n, err := d.Attach(c.c); n != 2 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		if got := c.c.Append(nil); !bytes.Equal(got, c.doc) {
			diffAt(t, c.c.Flavor.String(), got, c.doc)
		}
		if n, err := d.Attach(c.c); n != 0 || err != nil {
			t.Errorf("again: %d, %v", n, err)
		}
	}
	old, err := ParseConsensus(read(t, "ctor/consensus-microdesc-old"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Attach(old); err == nil {
		t.Error("signatures of another consensus were attached")
	}
	for i := 1; i < len(text); i++ {
		if text[i-1] == '\n' {
			continue // a document may end after any item
		}
		if _, err := ParseDetachedSignatures(text[:i]); err == nil {
			t.Fatalf("truncated to %d", i)
		}
	}
}

// What C tor wrote, Chive writes byte for byte.
func TestDetachedOfCTor(t *testing.T) {
	doc := read(t, "ctor/detached-signatures")
	d, err := ParseDetachedSignatures(doc)
	if err != nil {
		t.Fatal(err)
	}
	if got := d.Append(nil); !bytes.Equal(got, doc) {
		diffAt(t, "detached-signatures", got, doc)
	}
}

func FuzzDetachedSignatures(f *testing.F) {
	seed(f, "ctor/detached-signatures")
	ns, err := ParseConsensus(read(f, "ctor/consensus-ns"), nil, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(Detach(ns).Append(nil))
	f.Fuzz(func(t *testing.T, doc []byte) {
		d, err := ParseDetachedSignatures(doc)
		if err != nil {
			return
		}
		if _, err := ParseDetachedSignatures(d.Append(nil)); err != nil {
			t.Fatalf("what was encoded does not parse: %v", err)
		}
	})
}
