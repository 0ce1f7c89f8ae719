package dirclient

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/netdoc"
)

// hostileFirst is a world whose first cache is asked before any other.
type hostileFirst struct{ *world }

func (h hostileFirst) OpenDir(ctx context.Context, q Query) (Stream, error) {
	if !slices.Contains(q.Avoid, cacheID(0)) {
		for i := 1; i < h.caches; i++ {
			q.Avoid = append(slices.Clip(q.Avoid), cacheID(i))
		}
	}
	return h.world.OpenDir(ctx, q)
}

// blamed returns how many reports about a cache there are, and how many of them are bad.
func (w *world) blamed(cache int) (reports int, bad int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, err := range w.reports[cache] {
		reports++
		if err != nil {
			bad++
		}
	}
	return reports, bad
}

// A cache cannot make a client believe that a relay's microdescriptor is not to be had, or
// is of no use: whatever it answers, the client asks the next cache for what it still
// lacks, at once, and blames no other cache.
func TestHostileMicrodescs(t *testing.T) {
	n := small(t, 150)
	asked := func(path string) (out [][32]byte) {
		for s := range strings.SplitSeq(strings.TrimPrefix(path, "/tor/micro/d/"), "-") {
			b, err := base64.RawStdEncoding.DecodeString(s)
			if err != nil {
				t.Error(err)
			}
			out = append(out, [32]byte(b))
		}
		return out
	}
	texts := func(digests [][32]byte, change func(i int, text []byte) []byte) (out []byte) {
		for i, d := range digests {
			out = append(out, change(i, bytes.Clone(n.ByDigest[d]))...)
		}
		return out
	}
	same := func(_ int, b []byte) []byte { return b }
	for what, answer := range map[string]func(want [][32]byte) (status int, body []byte){
		"404":   func([][32]byte) (int, []byte) { return 404, nil },
		"empty": func([][32]byte) (int, []byte) { return 200, nil },
		"those of other relays": func(want [][32]byte) (int, []byte) {
			var others [][32]byte
			for d := range n.ByDigest {
				if !slices.Contains(want, d) {
					others = append(others, d)
				}
			}
			return 200, texts(others, same)
		},
		"the first alone": func(want [][32]byte) (int, []byte) { return 200, texts(want[:1], same) },
		"the first again and again": func(want [][32]byte) (int, []byte) {
			return 200, texts(slices.Repeat(want[:1], len(want)), same)
		},
		"all but the last": func(want [][32]byte) (int, []byte) { return 200, texts(want[:len(want)-1], same) },
		"changed": func(want [][32]byte) (int, []byte) {
			return 200, texts(want, func(_ int, b []byte) []byte { b[len(b)-2] ^= 1; return b })
		},
		"with a line more": func(want [][32]byte) (int, []byte) {
			return 200, texts(want, func(_ int, b []byte) []byte { return append(b, "x\n"...) })
		},
		"with blank lines": func(want [][32]byte) (int, []byte) {
			return 200, texts(want, func(_ int, b []byte) []byte { return append(b, '\n') })
		},
		"malformed": func(want [][32]byte) (int, []byte) {
			return 200, texts(want, func(i int, b []byte) []byte {
				if i%2 == 0 {
					return b[len("onion-key\n"):]
				}
				return bytes.Replace(b, []byte("ntor-onion-key"), []byte("ntor-onion-key x"), 1)
			})
		},
		"annotated": func(want [][32]byte) (int, []byte) {
			return 200, texts(want, func(_ int, b []byte) []byte { return append([]byte("@last-listed 2000-01-01 00:00:00\n"), b...) })
		},
	} {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(n)
			w.fault = func(cache int, path string, to io.Writer) bool {
				if cache != 0 || !strings.HasPrefix(path, "/tor/micro/") {
					return false
				}
				status, body := answer(asked(path))
				fmt.Fprintf(to, "HTTP/1.0 %d x\r\nContent-Length: %d\r\n\r\n%s", status, len(body), body)
				return true
			}
			c := New(Config{Network: n.Network, Dialer: hostileFirst{w}, Dir: dir})
			start := time.Now()
			stop := run(t, c)
			wait(t, c)
			synctest.Wait()
			if took := time.Since(start); took != 0 || c.Directory().Usability().Have != 150 {
				t.Errorf("%s: after %v: %+v", what, took, c.Directory().Usability())
			}
			stop()
			for i := 1; i < w.caches; i++ {
				if _, bad := w.blamed(i); bad > 0 {
					t.Errorf("%s: cache %d was blamed", what, i)
				}
			}
			useful := what == "annotated" || strings.Contains(what, "first") || what == "all but the last"
			if reports, bad := w.blamed(0); reports == 0 || bad > 0 == useful {
				t.Errorf("%s: the cache was blamed %d times of %d", what, bad, reports)
			}
			// What it sent is not on the disk either.
			again := New(Config{Network: n.Network, Dialer: w, Dir: dir})
			if again.Load(); again.Directory() == nil || again.Directory().Usability().Have != 150 {
				t.Errorf("%s: after a restart: %v", what, again.Directory())
			}
		})
	}
}

// The same holds for the authorities' certificates: those that were not asked for, however
// good, are no answer.
func TestHostileCerts(t *testing.T) {
	n := small(t, 30)
	var certs []*netdoc.AuthCert
	netdoc.ParseAuthCerts(n.Certs, func(c *netdoc.AuthCert, err error) {
		if err != nil {
			t.Fatal(err)
		}
		certs = append(certs, c)
	})
	for what, answer := range map[string]func(string) []byte{
		"empty":   func(string) []byte { return nil },
		"garbage": func(string) []byte { return []byte("no certificate\n") },
		"changed": func(string) []byte {
			return bytes.Replace(n.Certs, []byte("dir-key-expires 2"), []byte("dir-key-expires 3"), -1)
		},
		"another": func(string) []byte { return certs[0].Text }, // which the client has already
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(n)
			w.fault = func(cache int, path string, to io.Writer) bool {
				if cache != 0 || !strings.HasPrefix(path, "/tor/keys/") {
					return false
				}
				fmt.Fprintf(to, "HTTP/1.0 200 OK\r\n\r\n%s", answer(path))
				return true
			}
			c := New(Config{Network: n.Network, Dialer: hostileFirst{w}})
			if _, err := c.certs.add(certs[0].Text, time.Now()); err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			stop := run(t, c)
			wait(t, c)
			stop()
			if took := time.Since(start); took != 0 {
				t.Errorf("%s: it took %v", what, took)
			}
			for _, r := range w.seen() {
				if strings.HasPrefix(r.path, "/tor/keys/") && r.cache == 0 && strings.Contains(r.path, certs[0].Identity.String()) {
					t.Errorf("%s: the certificate that is there was asked for", what)
				}
			}
			if asked := w.count("/tor/keys/"); asked != 2 {
				t.Errorf("%s: %d requests for certificates", what, asked)
			}
			if _, bad := w.blamed(0); bad != 1 {
				t.Errorf("%s: the cache was blamed %d times", what, bad)
			}
		})
	}
}

// A directory cache asks another one, too, if the first has none of the extra-info
// documents, and says so by sending others.
func TestHostileExtraInfos(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	want, extra := signed(t, now)
	_, other := signed(t, now)
	w := newWorld(small(t, 10))
	w.fault = func(cache int, path string, to io.Writer) bool {
		body := extra.Text
		if cache == 0 {
			body = other.Text
		}
		if !strings.HasPrefix(path, "/tor/extra/d/") {
			body = want.Text
		}
		fmt.Fprintf(to, "HTTP/1.0 200 OK\r\n\r\n%s", body)
		return true
	}
	s := &shelf{map[[20]byte]bool{}, map[[20]byte]bool{}}
	m := &Mirror{Client: New(Config{Network: w.net.Network, Dialer: hostileFirst{w}}), Store: s, ExtraInfo: true, current: &netdoc.Consensus{}}
	m.current.Routers = []netdoc.RouterStatus{{Descriptor: want.Digest}}
	if err := m.fetchDescriptors(t.Context(), m.missing()); err != nil || !s.extras[extra.Digest] || len(m.owed) != 0 {
		t.Errorf("%v: %d documents, %d owed", err, len(s.extras), len(m.owed))
	}
	if s.extras[other.Digest] {
		t.Error("a document of another relay was kept")
	}
}

// Router descriptors that cannot be verified, though their digest is right, are asked for
// again: the digest does not cover the signatures.
func TestHostileDescriptors(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	want, _ := signed(t, now)
	other, _ := signed(t, now)
	i := bytes.LastIndex(want.Text, []byte("-----BEGIN SIGNATURE-----\n")) + len("-----BEGIN SIGNATURE-----\n") + 5
	damaged := bytes.Clone(want.Text)
	if damaged[i] = 'A'; want.Text[i] == 'A' {
		damaged[i] = 'B'
	}
	for what, answer := range map[string][]byte{
		"a damaged signature": damaged, "no signature": want.Text[:i-5], "another relay's": other.Text, "nothing": nil,
		"the damaged one first, then another": append(bytes.Clone(damaged), other.Text...),
	} {
		w := newWorld(small(t, 10))
		w.fault = func(cache int, path string, to io.Writer) bool {
			body := want.Text
			if cache == 0 {
				body = answer
			}
			fmt.Fprintf(to, "HTTP/1.0 200 OK\r\n\r\n%s", body)
			return strings.HasPrefix(path, "/tor/server/d/")
		}
		s := &shelf{map[[20]byte]bool{}, map[[20]byte]bool{}}
		m := &Mirror{Client: New(Config{Network: w.net.Network, Dialer: hostileFirst{w}}), Store: s, current: &netdoc.Consensus{}}
		m.current.Routers = []netdoc.RouterStatus{{Descriptor: want.Digest}}
		if err := m.fetchDescriptors(t.Context(), m.missing()); err != nil || !s.descs[want.Digest] || len(s.descs) != 1 {
			t.Errorf("%s: %v: %d descriptors", what, err, len(s.descs))
		}
	}
}

// An older consensus does not take the place of a newer one, however well it is signed.
func TestOlderConsensus(t *testing.T) {
	n := small(t, 60)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(n)
		old := bytes.Clone(n.Consensus)
		time.Sleep(time.Until(n.ValidAfter.Add(n.Interval)))
		if err := w.publish(0.05, false); err != nil {
			t.Fatal(err)
		}
		c := New(Config{Network: n.Network, Dialer: hostileFirst{w}})
		stop := run(t, c)
		defer stop()
		wait(t, c)
		synctest.Wait()
		newest := c.Directory().ValidAfter()
		w.fault = func(cache int, path string, to io.Writer) bool {
			if cache == 0 && strings.Contains(path, "consensus") {
				fmt.Fprintf(to, "HTTP/1.0 200 OK\r\n\r\n%s", old)
				return true
			}
			return false
		}
		for range 3 {
			time.Sleep(time.Until(n.ValidAfter.Add(n.Interval)))
			if err := w.publish(0.05, false); err != nil {
				t.Fatal(err)
			}
			for range 60 {
				time.Sleep(time.Minute)
				if at := c.Directory().ValidAfter(); at.Before(newest) {
					t.Fatalf("the consensus of %v came after that of %v", at, newest)
				} else {
					newest = at
				}
			}
		}
		if _, bad := w.blamed(0); bad == 0 {
			t.Error("the cache was never asked for a consensus")
		}
		if !c.Directory().Live(time.Now()) {
			t.Error("the client has no live consensus")
		}
	})
}
