package lang

import (
	"math/rand/v2"
	"testing"

	"github.com/chivenet/chive/fte/internal/formats"
)

// benchFormats are slices with different shapes: one radix, a power of two,
// a long tail of bytes, and automata with choices.
var benchFormats = []string{
	"manual-http-request", "manual-http-response", "base64-request", "lowercase-request",
	"words-request", "sentences-request", "url-path-request", "email-simple-request", "dummy-request",
}

func BenchmarkSlice(b *testing.B) {
	d, err := formats.Builtin(formats.DefaultRelease)
	if err != nil {
		b.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for _, name := range benchFormats {
		f, _ := d.Lookup(name)
		l, err := Compile(f.Pattern, Options{ClassicEscapes: true})
		if err != nil {
			b.Fatal(err)
		}
		s, err := l.Slice(f.Slice)
		if err != nil {
			b.Fatal(err)
		}
		var xs, words [64][]byte
		for i := range xs {
			xs[i] = make([]byte, s.Bytes())
			for k := range xs[i] {
				xs[i][k] = byte(r.Uint32())
			}
			words[i] = make([]byte, s.Len())
		}
		b.Run(name+"/unrank", func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if err := s.Unrank(words[i%64], xs[i%64]); err != nil {
					b.Fatal(err)
				}
			}
		})
		for i := range xs {
			if err := s.Unrank(words[i], xs[i]); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(name+"/rank", func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if err := s.Rank(xs[i%64], words[i%64]); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/compile", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				l, err := Compile(f.Pattern, Options{ClassicEscapes: true})
				if err != nil {
					b.Fatal(err)
				}
				if _, err := l.Slice(f.Slice); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
