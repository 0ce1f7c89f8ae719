package fte

import (
	"bytes"
	"crypto/rand"
	"testing"
)

// TestText sends chunks of every length up to 300 through every format and
// mode of coding, received in pieces.
func TestText(t *testing.T) {
	for _, mode := range []Mode{Strict, Cells} {
		for _, name := range definitions(t, "", false).Names() {
			f := mustFormat(t, name+requestSuffix)
			p := &chiveProto{Protocol: Protocol{Rand: rand.Reader, Mode: mode}, request: f, response: f}
			w, err := p.writer(f)
			if err != nil {
				t.Fatal(err)
			}
			r, err := p.reader(f)
			if err != nil {
				t.Fatal(err)
			}
			for n := range 301 {
				head, body := noise(recordHead, uint64(n)), noise(n, uint64(n)+1000)
				text, err := w.append(nil, head, body)
				if err != nil {
					t.Fatal(err)
				}
				at, given := 0, 0
				for _, c := range [][]byte{head, body} {
					if len(c) == 0 {
						continue
					}
					got := make([]byte, len(c))
					r.begin(got)
					for done := false; !done; {
						given = min(len(text), max(given, at+1+(n*7+at)%97))
						k, d, err := r.write(text[at:given])
						if err != nil || k == 0 && !d && given == len(text) {
							t.Fatalf("%v: %s: %d bytes: %d of %d bytes of text taken, %v", mode, name, n, at, len(text), err)
						}
						if at += k; k == 0 {
							given++
						}
						done = d
					}
					if !bytes.Equal(got, c) {
						t.Fatalf("%v: %s: a chunk of %d bytes is decoded to something else", mode, name, len(c))
					}
				}
				r.end()
				if at != len(text) {
					t.Fatalf("%v: %s: %d bytes: %d bytes of text are left", mode, name, n, len(text)-at)
				}
			}
		}
	}
}
