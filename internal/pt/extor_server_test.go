package pt

import (
	"bytes"
	"crypto/rand"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
)

// TestExtServer puts the client's side, which C tor judges, before the
// server's.
func TestExtServer(t *testing.T) {
	cookie := bytes.Repeat([]byte{7}, cookieLen)
	talk := func(clientCookie []byte) (ExtPeer, error, error) {
		a, b := net.Pipe()
		defer a.Close()
		said := make(chan error, 1)
		go func() {
			defer b.Close()
			said <- extHello(b, rand.Reader, clientCookie, netip.MustParseAddrPort("[2001:db8::1]:5"), "obfs4")
		}()
		p, err := AcceptExt(a, rand.Reader, cookie)
		a.Close()
		return p, err, <-said
	}
	p, err, cerr := talk(cookie)
	if err != nil || cerr != nil || p.Transport != "obfs4" || p.User.String() != "[2001:db8::1]:5" {
		t.Errorf("%+v %v %v", p, err, cerr)
	}
	if _, err, cerr = talk(bytes.Repeat([]byte{8}, cookieLen)); err == nil || cerr == nil {
		t.Errorf("another cookie: %v, %v", err, cerr)
	}
	file := filepath.Join(t.TempDir(), "cookie")
	for range 2 {
		made, err := NewExtCookie(rand.Reader, file)
		if err != nil {
			t.Fatal(err)
		}
		if read, err := readCookie(file); err != nil || !bytes.Equal(made, read) {
			t.Fatal("the cookie file", err)
		}
	}
	if st, err := os.Stat(file); err != nil || st.Mode() != 0o600 {
		t.Error(st, err)
	}
}

func FuzzExtCommands(f *testing.F) {
	f.Add([]byte("\x00\x01\x00\x0b192.0.2.1:5\x00\x02\x00\x05obfs4\x00\x00\x00\x00"))
	f.Add([]byte("\x00\x09\x00\x01x\x00\x00\x00\x00"))
	f.Add([]byte("\x00\x02\x04\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := readExtCommands(bytes.NewReader(b))
		if err == nil && p.Transport != "" && !validName(p.Transport) {
			t.Fatalf("%+v", p)
		}
	})
}
