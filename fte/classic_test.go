package fte

import (
	"bytes"
	"encoding/hex"
	"io"
	"net"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

func definitions(t testing.TB, release string, order019 bool) *Definitions {
	t.Helper()
	d, err := Release(release, order019)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestClassicFormats runs every format of both releases in both orders, with
// the server expecting the default: a language that contains another is no
// trap.
func TestClassicFormats(t *testing.T) {
	for _, set := range []struct {
		release string
		old     bool
		runs    int
	}{{"20260110", false, 23}, {"20131224", false, 3}, {"20131224", true, 3}} {
		defs := definitions(t, set.release, set.old)
		if n := len(defs.Names()); n != set.runs {
			t.Errorf("release %s has %d formats, not %d", set.release, n, set.runs)
		}
		srv, err := Classic{Definitions: defs}.Acceptor()
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range defs.Names() {
			cli, err := Classic{Definitions: defs, Format: name}.Dialer()
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			a, b := tcpPair(t)
			a.SetDeadline(time.Now().Add(60 * time.Second))
			b.SetDeadline(time.Now().Add(60 * time.Second))
			c, s := cli.Wrap(a), srv.Wrap(b)
			up, down := noise(300_001, 3), noise(100_003, 4)
			go func() {
				c.Write(up[:1])
				c.Write(up[1:17])
				c.Write(up[17:])
				c.CloseWrite()
			}()
			got, err := io.ReadAll(s)
			if err != nil || !bytes.Equal(got, up) {
				t.Errorf("%s: up: %d bytes, %v", name, len(got), err)
				continue
			}
			go func() { s.Write(down); s.CloseWrite() }()
			if got, err = io.ReadAll(c); err != nil || !bytes.Equal(got, down) {
				t.Errorf("%s: down: %d bytes, %v", name, len(got), err)
			}
		}
	}
}

// capture keeps what is written to it.
type capture struct {
	net.Conn
	b bytes.Buffer
}

func (c *capture) Write(p []byte) (int, error) { return c.b.Write(p) }

// script is a peer that sends fixed bytes and then ends.
type script struct {
	net.Conn
	r io.Reader
}

func (s script) Read(p []byte) (int, error)  { return s.r.Read(p) }
func (s script) Write(p []byte) (int, error) { return len(p), nil }

// zeros is a source of "random" bytes that are all zero.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestClassicVector fixes one stream byte by byte. It was compared with what
// fteproxy 0.3.2 decodes by the interoperation tests, and must not change.
func TestClassicVector(t *testing.T) {
	d, err := Classic{Format: "hex", Rand: zeros{}}.Dialer()
	if err != nil {
		t.Fatal(err)
	}
	var out capture
	c := d.Wrap(&out)
	if _, err := c.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	w := out.b.Bytes()
	if len(w) != 2*256 {
		t.Fatalf("%d bytes, not two words: both records fit into one", len(w))
	}
	// A format of hexadecimal digits shows X itself, but for the bit that the
	// capacity leaves out: B is 127, so the first two digits are zero.
	x, err := hex.DecodeString(string(w[:256]))
	if err != nil || x[0] != 0 {
		t.Fatal("the word isn't the number in hexadecimal:", err)
	}
	ae := newClassicAE(&DefaultKey)
	var h [16]byte
	ae.block.Decrypt(h[:], x[1:17])
	if want := append(make([]byte, 15), 96); !bytes.Equal(h[:], want) {
		t.Errorf("header %x, not %x", h, want)
	}
	p, err := ae.open(x[17 : 17+96])
	if err != nil {
		t.Fatal(err)
	}
	if want := append(make([]byte, 64-11), "20260110hex"...); !bytes.Equal(p, want) {
		t.Errorf("negotiation %q", p)
	}
}

// stream returns the wire bytes of one client that sends data.
func stream(t testing.TB, p Classic, data ...[]byte) []byte {
	t.Helper()
	d, err := p.Dialer()
	if err != nil {
		t.Fatal(err)
	}
	var out capture
	c := d.Wrap(&out)
	for _, b := range data {
		if _, err := c.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	return bytes.Clone(out.b.Bytes())
}

// TestClassicHostile changes, cuts and reorders streams: nothing that was
// touched is delivered.
func TestClassicHostile(t *testing.T) {
	srv, err := Classic{}.Acceptor()
	if err != nil {
		t.Fatal(err)
	}
	read := func(wire []byte) ([]byte, error) {
		return io.ReadAll(srv.Wrap(script{r: bytes.NewReader(wire)}))
	}
	a, b := noise(1000, 5), noise(1000, 6)
	wire := stream(t, Classic{}, a, b)
	plain := append(bytes.Clone(a), b...)
	if got, err := read(wire); err != nil || !bytes.Equal(got, plain) {
		t.Fatal("the stream itself isn't delivered:", err)
	}
	neg := 256 // the negotiation fits into one word
	cell := (len(wire) - neg) / 2
	for i := 0; i < len(wire); i += 61 {
		w := bytes.Clone(wire)
		w[i] ^= 1
		got, err := read(w)
		if i < neg && err == nil {
			// The padding of a word isn't authenticated; it carries nothing.
			if !bytes.Equal(got, plain) {
				t.Errorf("byte %d of the negotiation changed what is delivered", i)
			}
			continue
		}
		whole := 0
		if i >= neg+cell {
			whole = len(a)
		}
		if err == nil || len(got) > whole || !bytes.HasPrefix(plain, got) {
			t.Errorf("byte %d changed: %d bytes delivered, %v", i, len(got), err)
		}
	}
	for _, n := range []int{0, 1, 255, 256, 257, neg + 1, neg + cell - 1, neg + cell + 1, len(wire) - 1} {
		got, err := read(wire[:n])
		whole := 0
		if n >= neg+cell {
			whole = len(a)
		}
		if n == neg {
			continue // a client that says nothing
		}
		if err == nil || len(got) != whole {
			t.Errorf("cut at %d: %d bytes delivered, %v", n, len(got), err)
		}
	}
	// A server's words aren't a client's: reflection decodes in no format.
	resp := stream(t, Classic{Format: "http-simple"}, a)
	swapped := append(bytes.Clone(wire[:neg]), resp[neg:]...)
	if got, err := read(swapped); err == nil || len(got) > 0 {
		t.Errorf("another format's cell: %d bytes delivered, %v", len(got), err)
	}
	other := Key{1}
	if _, err := read(stream(t, Classic{Key: other}, a)); err == nil {
		t.Error("another key was accepted")
	}
}

func TestClassicRefuses(t *testing.T) {
	for name, p := range map[string]Classic{
		"format": {Format: "nosuch"},
		"cell":   {MaxCell: MaxClassicCell + 1},
	} {
		if _, err := p.Dialer(); !fault.Is(err, fault.Config) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ParseKey("ff"); err == nil {
		t.Error("a short key was read")
	}
	if k, err := ParseKey(" " + DefaultKey.Hex() + "\n"); err != nil || k != DefaultKey {
		t.Error("a key isn't read back:", err)
	}
	if _, err := Release("19990101", false); err == nil {
		t.Error("an unknown release was found")
	}
	if _, err := NewFormat("long", "^a*$", maxWord+1).Words(); !fault.Is(err, fault.Config) {
		t.Error("a word that is too long:", err)
	}
}

// TestClassicAllocs holds a steady stream to no allocation on the sending
// side and at most the CTR stream on the receiving one.
func TestClassicAllocs(t *testing.T) {
	w, err := mustFormat(t, "manual-http-request").Words()
	if err != nil {
		t.Fatal(err)
	}
	s, err := newClassicSealer(&DefaultKey, w, zeros{}, MaxClassicCell)
	if err != nil {
		t.Fatal(err)
	}
	o, err := newClassicOpener(newClassicAE(&DefaultKey), w)
	if err != nil {
		t.Fatal(err)
	}
	head, tail, _ := s.room()
	buf := make([]byte, head+8192+tail)
	n := testing.AllocsPerRun(50, func() {
		wire, err := s.seal(buf, head, 8192)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, _, err := o.open(wire); err != nil {
			t.Fatal(err)
		}
	})
	if n > 0 {
		t.Errorf("%v allocations a cell", n)
	}
}

func mustFormat(t testing.TB, name string) *Format {
	t.Helper()
	f, err := definitions(t, "", false).Format(name)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func FuzzClassicOpen(f *testing.F) {
	w, err := mustFormat(f, "ip-address-request").Words()
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte("1.2.3.4"))
	f.Add(stream(f, Classic{Format: "ip-address"}, []byte("abc")))
	f.Fuzz(func(t *testing.T, b []byte) {
		o, err := newClassicOpener(newClassicAE(&DefaultKey), w)
		if err != nil {
			t.Fatal(err)
		}
		for len(b) > 0 {
			_, used, need, err := o.open(b)
			if err != nil {
				return
			}
			if used == 0 {
				if need <= len(b) || need > largeFrame {
					t.Fatalf("%d bytes are wanted of %d", need, len(b))
				}
				return
			}
			b = b[used:]
		}
	})
}
