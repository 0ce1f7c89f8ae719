package fte

import (
	"bytes"
	"crypto/rand"
	"io"
	"testing"
)

// TestStreamHostile changes, cuts, swaps and reflects a recorded stream of records.
func TestStreamHostile(t *testing.T) {
	for mode := range modes {
		req := mustFormat(t, "hex-request")
		p := &chiveProto{Protocol: Protocol{Rand: rand.Reader, Mode: mode}, request: req, response: req}
		sec := secrets{toServer: [32]byte{1}, toClient: [32]byte{2}}
		use := func(c *Conn, send, receive [32]byte) {
			w, err := p.writer(req)
			if err != nil {
				t.Fatal(err)
			}
			r, err := p.reader(req)
			if err != nil {
				t.Fatal(err)
			}
			c.hsDone = true
			p.use(c, sec, w, r, send, receive)
		}
		var out capture
		c := newConn(&out, nil)
		use(c, sec.toServer, sec.toClient)
		var ends []int
		a, b := noise(500, 1), noise(700, 2)
		for _, d := range [][]byte{a, b} {
			if _, err := c.Write(d); err != nil {
				t.Fatal(err)
			}
			ends = append(ends, out.b.Len())
		}
		f := getFrame(nil, wireFrame)
		fin, err := c.seal.finish(f.B)
		if err != nil {
			t.Fatal(err)
		}
		wire := append(bytes.Clone(out.b.Bytes()), fin...)
		read := func(b []byte, key [32]byte) ([]byte, error) {
			r := newConn(recorded(b), nil)
			use(r, sec.toClient, key)
			return io.ReadAll(r)
		}
		plain := append(bytes.Clone(a), b...)
		if got, err := read(wire, sec.toServer); err != nil || !bytes.Equal(got, plain) {
			t.Fatalf("%v: the stream itself: %v", mode, err)
		}
		check := func(what string, b []byte, key [32]byte, most int) {
			got, err := read(b, key)
			if err == nil || len(got) > most || !bytes.HasPrefix(plain, got) {
				t.Errorf("%v: %s: %d bytes delivered, %v", mode, what, len(got), err)
			}
		}
		for i := 0; i < ends[1]; i += 37 {
			x := bytes.Clone(wire)
			x[i] ^= 1
			got, err := read(x, sec.toServer)
			if !bytes.HasPrefix(plain, got) || err == nil && len(got) != len(plain) {
				t.Errorf("%v: byte %d changed: %d bytes delivered, %v", mode, i, len(got), err)
			}
		}
		for i := 0; i < len(wire); i += 41 {
			most := 0
			if i >= ends[0] {
				most = len(a)
			}
			if i >= ends[1] {
				most = len(plain)
			}
			check("cut", wire[:i], sec.toServer, most)
		}
		second := append(bytes.Clone(wire[ends[0]:ends[1]]), wire[:ends[0]]...)
		check("reordered", second, sec.toServer, 0)
		check("repeated", append(bytes.Clone(wire[:ends[0]]), wire[:ends[0]]...), sec.toServer, len(a))
		check("reflected", wire, sec.toClient, 0)
	}
}

func TestRecordsTurnKeys(t *testing.T) {
	a, b := newRecordKeys([32]byte{7}, 0), &recordOpener{keys: newRecordKeys([32]byte{7}, 0)}
	a.n, b.keys.n = 2*recordsPerKey-2, 2*recordsPerKey-2
	before := a.key
	buf := make([]byte, 200)
	for i := range 3 {
		copy(buf[recordHead:], "data")
		data, _, _, err := b.open(bytes.Clone(a.seal(buf, recordHead, 4, 9, kindData)))
		if err != nil || string(data) != "data" {
			t.Fatalf("record %d: %q, %v", i, data, err)
		}
	}
	if a.key == before || a.n != 4 {
		t.Error("the key wasn't replaced")
	}
}

func TestRecordAllocs(t *testing.T) {
	f := mustFormat(t, "base64-request")
	for name := range modes {
		p := &chiveProto{Protocol: Protocol{Rand: zeros{}, Mode: name}, request: f, response: f}
		w, err := p.writer(f)
		if err != nil {
			t.Fatal(err)
		}
		r, err := p.reader(f)
		if err != nil {
			t.Fatal(err)
		}
		var out capture
		s := p.use(newConn(&out, nil), secrets{}, w, r, [32]byte{1}, [32]byte{2})
		head, tail, _ := s.room()
		buf := make([]byte, head+4096+tail)
		if n := testing.AllocsPerRun(1000, func() { // the race detector has pools drop a quarter
			if _, err := s.seal(buf, head, 4096); err != nil {
				t.Fatal(err)
			}
			s.release()
		}); n > 0 {
			t.Errorf("%v: %v allocations a record", name, n)
		}
	}
}

func FuzzRecordOpen(f *testing.F) {
	k := newRecordKeys([32]byte{1}, 0)
	buf := make([]byte, 100)
	f.Add(bytes.Clone(k.seal(buf, recordHead, 10, 3, kindData)))
	f.Add(make([]byte, recordHead))
	f.Fuzz(func(t *testing.T, b []byte) {
		o := &recordOpener{keys: newRecordKeys([32]byte{1}, 0)}
		if _, used, need, err := o.open(b); err == nil && (used > len(b) || used == 0 && (need <= len(b) || need > maxRecord)) {
			t.Fatalf("used %d, need %d of %d", used, need, len(b))
		}
	})
}

// FuzzStreamOpen gives what isn't authentic to an open connection of each mode.
func FuzzStreamOpen(f *testing.F) {
	formats := []*Format{mustFormat(f, "words-request"), mustFormat(f, "manual-http-response"), mustFormat(f, "hex-request")}
	f.Add(uint8(0), []byte("some words that are in the language and no record "))
	f.Add(uint8(5), bytes.Repeat([]byte("0f"), 300))
	f.Fuzz(func(t *testing.T, which uint8, b []byte) {
		format := formats[int(which)%len(formats)]
		p := &chiveProto{Protocol: Protocol{Rand: zeros{}, Mode: Mode(which/8) % modes}, request: format, response: format}
		w, err := p.writer(format)
		if err != nil {
			t.Fatal(err)
		}
		r, err := p.reader(format)
		if err != nil {
			t.Fatal(err)
		}
		c := newConn(recorded(b), nil)
		c.hsDone = true
		p.use(c, secrets{}, w, r, [32]byte{1}, [32]byte{2})
		if got, err := io.ReadAll(c); err == nil || len(got) > 0 {
			t.Fatalf("%d bytes are delivered, %v", len(got), err)
		}
	})
}
