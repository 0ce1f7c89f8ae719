package fte

import (
	"fmt"
	"testing"
)

func BenchmarkWords(b *testing.B) {
	for _, name := range []string{"manual-http-request", "manual-http-response", "base64-request", "words-request", "url-path-request"} {
		w, err := mustFormat(b, name).Words()
		if err != nil {
			b.Fatal(err)
		}
		x := noise(w.Bytes(), 1)
		word := make([]byte, w.Len())
		b.Run("unrank/"+name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(w.Bytes()))
			for b.Loop() {
				if err := w.Unrank(word, x); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("rank/"+name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(w.Bytes()))
			for b.Loop() {
				if err := w.Rank(x, word); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkClassicCell(b *testing.B) {
	w, err := mustFormat(b, "manual-http-request").Words()
	if err != nil {
		b.Fatal(err)
	}
	for _, n := range []int{64, 1400, 64000} {
		s, err := newClassicSealer(&DefaultKey, w, zeros{}, MaxClassicCell)
		if err != nil {
			b.Fatal(err)
		}
		o, err := newClassicOpener(&DefaultKey, w)
		if err != nil {
			b.Fatal(err)
		}
		head, tail, _ := s.room()
		buf := make([]byte, head+n+tail)
		b.Run(fmt.Sprintf("seal+open/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(n))
			for b.Loop() {
				wire, err := s.seal(buf, head, n)
				if err != nil {
					b.Fatal(err)
				}
				if _, _, _, err := o.open(wire); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
