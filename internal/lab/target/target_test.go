package target

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

func start(t *testing.T) *Target {
	t.Helper()
	tg, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tg.Close(); err != nil {
			t.Error(err)
		}
	})
	return tg
}

func dial(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(time.Minute))
	return c.(*net.TCPConn)
}

const knownStart = "7d0367980875c6b4"

// TestKnownBytes pins the stream: other programs and other days must see the
// same.
func TestKnownBytes(t *testing.T) {
	b, err := io.ReadAll(Bytes(1000))
	if err != nil || sha256.Sum256(b) != Sum(1000) || len(b) != 1000 {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	if got := hex.EncodeToString(b[:8]); got != knownStart {
		t.Errorf("the stream begins with %s, want %s", got, knownStart)
	}
}

func TestWeb(t *testing.T) {
	tg := start(t)
	const n = 300_000
	r, err := http.Get(tg.URL(n))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil || sha256.Sum256(b) != Sum(n) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	c := dial(t, tg.Addr(Web))
	if _, err := io.WriteString(c, "GET /whence HTTP/1.0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(c); err != nil || !bytes.HasSuffix(b, []byte("\r\n\r\n"+c.LocalAddr().String())) {
		t.Errorf("not from %v: %q %v", c.LocalAddr(), b, err)
	}
	r, err = http.Post("http://"+tg.Addr(Web)+"/upload", "application/octet-stream", Bytes(n))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var up Uploaded
	if err := json.NewDecoder(r.Body).Decode(&up); err != nil {
		t.Fatal(err)
	}
	if sum := Sum(n); up.Bytes != n || up.SHA256 != hex.EncodeToString(sum[:]) {
		t.Errorf("%+v", up)
	}
	r, err = http.Get("http://" + tg.Addr(Web) + "/bytes/-1")
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	if r.StatusCode != http.StatusBadRequest {
		t.Errorf("-1 bytes: %s", r.Status)
	}
}

func TestEchoHalfClose(t *testing.T) {
	tg := start(t)
	c := dial(t, tg.Addr(Echo))
	if _, err := c.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(c); err != nil || string(b) != "hello" {
		t.Errorf("%q, %v", b, err)
	}
}

func TestSourceAndSink(t *testing.T) {
	tg := start(t)
	const n = 200_000
	for _, addr := range []string{tg.Addr(Source), tg.Addr6(Source)} {
		if addr == "" {
			continue
		}
		c := dial(t, addr)
		c.Write(binary.BigEndian.AppendUint64(nil, n))
		if b, err := io.ReadAll(c); err != nil || sha256.Sum256(b) != Sum(n) {
			t.Errorf("%s: %d bytes, %v", addr, len(b), err)
		}
	}
	c := dial(t, tg.Addr(Sink))
	c.Write(binary.BigEndian.AppendUint64(nil, n))
	if _, err := io.Copy(c, Bytes(n)); err != nil {
		t.Fatal(err)
	}
	want := Sum(n)
	if b, err := io.ReadAll(c); err != nil || !bytes.Equal(b, want[:]) {
		t.Errorf("%x, %v", b, err)
	}
	// More than there may be: refused by the connection's end.
	c = dial(t, tg.Addr(Source))
	c.Write(binary.BigEndian.AppendUint64(nil, MaxBytes+1))
	if b, _ := io.ReadAll(c); len(b) != 0 {
		t.Errorf("%d bytes", len(b))
	}
}

func TestConnectionLog(t *testing.T) {
	tg := start(t)
	t0 := time.Now()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 9, 8, 7)}}
	c, err := d.Dial("tcp", tg.Addr(Echo))
	if err != nil {
		t.Skip("cannot bind 127.9.8.7:", err)
	}
	defer c.Close()
	c.Write([]byte("x"))
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil { // it has been accepted
		t.Fatal(err)
	}
	got := tg.Conns(t0)
	if len(got) != 1 || got[0].Service != Echo || got[0].From.Addr() != netip.MustParseAddr("127.9.8.7") {
		t.Errorf("%+v", got)
	}
	if late := tg.Conns(time.Now()); len(late) != 0 {
		t.Errorf("%+v", late)
	}
}

func TestCloseEndsConnections(t *testing.T) {
	tg := start(t)
	c := dial(t, tg.Addr(Echo))
	c.Write([]byte("x"))
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := tg.Close(); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 1)); err == nil {
		t.Errorf("%d bytes after Close", n)
	}
}

func TestDNS(t *testing.T) {
	tg := start(t)
	c, err := net.Dial("udp", tg.Nameserver().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	ask := func(name string, typ dnsmessage.Type) dnsmessage.Message {
		t.Helper()
		m := dnsmessage.Message{Header: dnsmessage.Header{ID: 7}, Questions: []dnsmessage.Question{
			{Name: dnsmessage.MustNewName(name), Type: typ, Class: dnsmessage.ClassINET}}}
		b, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		c.Write(b)
		buf := make([]byte, 1500)
		n, err := c.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		var r dnsmessage.Message
		if err := r.Unpack(buf[:n]); err != nil || r.ID != 7 || !r.Response {
			t.Fatalf("%v, %+v", err, r)
		}
		return r
	}
	if r := ask("TaRget.Test.", dnsmessage.TypeA); len(r.Answers) != 1 || r.Answers[0].Body.(*dnsmessage.AResource).A != [4]byte{127, 0, 0, 1} {
		t.Errorf("A: %+v", r)
	}
	if r := ask(Name6+".", dnsmessage.TypeAAAA); len(r.Answers) != 1 || r.Answers[0].Body.(*dnsmessage.AAAAResource).AAAA != netip.IPv6Loopback().As16() {
		t.Errorf("AAAA: %+v", r)
	}
	if r := ask(Name4+".", dnsmessage.TypeAAAA); len(r.Answers) != 0 || r.RCode != dnsmessage.RCodeSuccess {
		t.Errorf("no AAAA: %+v", r)
	}
	if r := ask("7.2.0.192.in-addr.arpa.", dnsmessage.TypePTR); len(r.Answers) != 1 || r.Answers[0].Body.(*dnsmessage.PTRResource).PTR.String() != Name+"." {
		t.Errorf("PTR: %+v", r)
	}
	if r := ask("nowhere.test.", dnsmessage.TypeA); r.RCode != dnsmessage.RCodeNameError {
		t.Errorf("unknown name: %+v", r)
	}
}

func FuzzAnswer(f *testing.F) {
	m := dnsmessage.Message{Questions: []dnsmessage.Question{
		{Name: dnsmessage.MustNewName(Name + "."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}}}
	b, err := m.Pack()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, query []byte) {
		reply := answer(query)
		var m dnsmessage.Message
		if reply != nil {
			if err := m.Unpack(reply); err != nil || !m.Response {
				t.Errorf("%v: %x", err, reply)
			}
		}
	})
}
