package fte

import (
	"fmt"
	mathrand "math/rand/v2"
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
		o, err := newClassicOpener(newClassicAE(&DefaultKey), w)
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

// BenchmarkRecord is one record's way through both ends of a mode.
func BenchmarkRecord(b *testing.B) {
	for mode := range modes {
		for _, name := range []string{"base64", "url-path", "words", "manual-http"} {
			for _, n := range []int{64, 16 << 10} {
				f := mustFormat(b, name+"-request")
				p := &chiveProto{Protocol: Protocol{Rand: mathrand.NewChaCha8([32]byte{}), Mode: mode}, request: f, response: f}
				w, err := p.writer(f)
				if err != nil {
					b.Fatal(err)
				}
				r, err := p.reader(f)
				if err != nil {
					b.Fatal(err)
				}
				c := newConn(&capture{}, nil)
				s := p.use(c, secrets{}, w, r, [32]byte{1}, [32]byte{1})
				head, tail, _ := s.room()
				buf := make([]byte, head+n+tail)
				b.Run(fmt.Sprintf("%v/%s/%d", mode, name, n), func(b *testing.B) {
					b.ReportAllocs()
					b.SetBytes(int64(n))
					for b.Loop() {
						wire, err := s.seal(buf, head, n)
						if err != nil {
							b.Fatal(err)
						}
						if plain, _, _, err := c.open.open(wire); err != nil || len(plain) != n {
							b.Fatal(len(plain), err)
						}
						s.release()
					}
				})
			}
		}
	}
}
