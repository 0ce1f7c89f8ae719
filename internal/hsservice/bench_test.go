package hsservice

import (
	"testing"
	"time"
)

// BenchmarkOpenIntroduction: the cost of an introduction that is refused, and of one that
// is accepted, without its rendezvous.
func BenchmarkOpenIntroduction(b *testing.B) {
	s, p := hosted(b, nowhere{})
	f := newFlooder(b, p, pointSilent)
	for name, body := range map[string]func() []byte{
		"junk": f.junk,
		"good": func() []byte { m, _ := f.introduction(); return m },
	} {
		b.Run(name, func(b *testing.B) {
			m := body()
			b.ReportAllocs()
			for b.Loop() {
				_, _ = s.decrypt(p, m, time.Now()) // an error, except for the first good one
			}
		})
	}
}
