package appearance

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"testing"
)

// TestReadHello reads what Go's TLS sends, of which the test knows the options.
func TestReadHello(t *testing.T) {
	here, there := net.Pipe()
	done := make(chan error, 1)
	go func() {
		c := tls.Client(there, &tls.Config{ServerName: "www.abcdef.com", MinVersion: tls.VersionTLS13, CurvePreferences: []tls.CurveID{tls.CurveP256}})
		done <- c.HandshakeContext(context.Background())
	}()
	head := make([]byte, recordHeader)
	if _, err := io.ReadFull(here, head); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, int(head[3])<<8|int(head[4]))
	if _, err := io.ReadFull(here, body); err != nil {
		t.Fatal(err)
	}
	here.Close()
	if err := <-done; err == nil {
		t.Error("a handshake without an answer")
	}
	h, ok := readHello(body)
	if !ok {
		t.Fatal("it is not read")
	}
	if h.label() != "abcdef" || h.shares() != "0017:65" || h.length != len(body) || h.session != 32 || h.fixed() != len(body)-len("www.abcdef.com") {
		t.Errorf("name %q, shares %q, length %d of %d, session %d, fixed %d", h.name, h.shares(), h.length, len(body), h.session, h.fixed())
	}
	for n := range body { // cut anywhere it is refused, and nothing panics
		if _, ok := readHello(body[:n]); ok {
			t.Errorf("%d bytes of it are read", n)
		}
	}
}
