package handshake

import (
	"bytes"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func message(n int) []byte {
	m := make([]byte, n)
	for i := range m {
		m[i] = byte(i * 7)
	}
	return m
}

// cut is AppendFragments of a message that can be cut.
func cut(t *testing.T, msg []byte, size int) [][]byte {
	t.Helper()
	parts, err := AppendFragments(nil, msg, size)
	if err != nil {
		t.Fatal(err)
	}
	return parts
}

// TestFragmentsTooLong: what a peer gave us to pass on may be longer than the
// specification allows: an error, and no panic.
func TestFragmentsTooLong(t *testing.T) {
	for name, c := range map[string]struct{ n, size int }{
		"empty": {0, 498}, "too long": {MaxFragmented + 1, 498}, "parts too small": {1000, 259},
	} {
		if parts, err := AppendFragments(nil, message(c.n), c.size); !fault.Is(err, fault.Local) || parts != nil {
			t.Errorf("%s: %d parts, %v", name, len(parts), err)
		}
	}
}

func TestFragments(t *testing.T) {
	for _, size := range []int{260, 490, 498} {
		for _, n := range []int{1, 255, 256, 257, 486, 494, 495, 1000, 1441, MaxFragmented} {
			m := message(n)
			fs := cut(t, m, size)
			var r Reassembly
			for i, f := range fs {
				if len(f) > size {
					t.Fatal("too long")
				}
				got, err := r.Add(noon, f)
				if err != nil {
					t.Fatal(err)
				}
				if last := i == len(fs)-1; last != (got != nil) || last && !bytes.Equal(got, m) || last == r.Pending() {
					t.Fatalf("%d bytes in %d: fragment %d", n, size, i)
				}
			}
		}
	}
	// The cells that the specification counts.
	for set, cells := range map[PQSet][2]int{PQ512: {3, 2}, PQ768: {3, 3}, PQ1024: {4, 4}} {
		const linkSpecs = 1 + 8 + 22 + 34 // IPv4, RSA, Ed25519
		f := cut(t, message(linkSpecs+4+hybrid(set).skinLen()+3), 498)
		b := cut(t, message(2+hybrid(set).replyLen()+4), 498)
		if len(f) != cells[0] || len(b) != cells[1] {
			t.Errorf("%v: %d and %d cells", set, len(f), len(b))
		}
	}
}

func TestFragmentsRefused(t *testing.T) {
	fs := cut(t, message(1441), 498)
	feed := func(now time.Time, order ...int) error {
		var r Reassembly
		for _, i := range order {
			if _, err := r.Add(now, fs[i]); err != nil {
				return err
			}
		}
		return nil
	}
	for name, order := range map[string][]int{
		"second first": {1}, "last first": {2}, "swapped": {0, 2, 1}, "replayed": {0, 1, 1}, "begun again": {0, 0}, "gap": {0, 2},
	} {
		if err := feed(noon, order...); !fault.Is(err, fault.Protocol) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, f := range map[string][]byte{
		"empty":     {},
		"short":     {0, 1, 0},
		"nothing":   {0, 0, 0, 0},
		"oversize":  append([]byte{8, 1, 0, 0}, message(300)...),
		"too small": append([]byte{4, 0, 0, 0}, message(255)...),
		"beyond":    append([]byte{1, 0, 0, 0}, message(257)...),
	} {
		var r Reassembly
		if _, err := r.Add(noon, f); !fault.Is(err, fault.Protocol) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var r Reassembly
	r.Add(noon, fs[0])
	bad := bytes.Clone(fs[1])
	bad[1]++ // another TOTAL
	if _, err := r.Add(noon, bad); !fault.Is(err, fault.Protocol) {
		t.Error("another length")
	}
	if r.Expired(noon.Add(FragmentTimeout-1)) || !r.Expired(noon.Add(FragmentTimeout)) {
		t.Error("deadline")
	}
	if _, err := r.Add(noon.Add(FragmentTimeout), fs[1]); !fault.Is(err, fault.Timeout) {
		t.Error("a late fragment was accepted", err)
	}
}

func FuzzReassembly(f *testing.F) {
	seeds, err := AppendFragments(nil, message(1441), 498)
	if err != nil {
		f.Fatal(err)
	}
	for _, b := range seeds {
		f.Add(b, b)
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		var r Reassembly
		for _, x := range [][]byte{a, b} {
			msg, err := r.Add(noon, x)
			if len(msg) > MaxFragmented || r.Pending() && len(r.m.buf) > MaxFragmented || err != nil && msg != nil {
				t.Fatal("bounds")
			}
			if err != nil {
				return
			}
		}
	})
}
