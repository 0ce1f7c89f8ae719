package channel

import (
	"bytes"
	"net"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
)

// byteConn is a connection that yields some bytes.
type byteConn struct {
	net.Conn
	in *bytes.Reader
}

func (c byteConn) Read(b []byte) (int, error)  { return c.in.Read(b) }
func (c byteConn) Write(b []byte) (int, error) { return len(b), nil }

// FuzzLinkCells feeds the bytes behind TLS to an initiator, up to the check of
// certificates, and to a responder.
func FuzzLinkCells(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		cfg := &LinkConfig{}
		c := &connecting{cfg: cfg, cells: newHandshakeCells(byteConn{in: bytes.NewReader(b)}, nil)}
		if c.cells.negotiate() == nil && c.read() == nil {
			if rest := len(c.cells.leftover()); rest >= len(b) || c.cells.version < 4 {
				t.Fatalf("%d of %d bytes left, version %d", rest, len(b), c.cells.version)
			}
			checkResponder(c.certs, [32]byte{}, time.Unix(1600000000, 0))
		}
		a := &accepting{cfg: cfg, cells: newHandshakeCells(byteConn{in: bytes.NewReader(b)}, nil)}
		if a.cells.negotiate() == nil {
			if _, err := a.read(); err == nil && a.proved {
				t.Fatal("a forged AUTHENTICATE")
			}
		}
		if n := len(c.cells.buf); n > len(b) || n > maxHandshakeBytes+(32<<10) {
			t.Fatalf("%d bytes were read", n)
		}
	})
}

// FuzzLinkCerts checks arbitrary CERTS bodies as either role does.
func FuzzLinkCerts(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		certs, err := cell.ParseCerts(b)
		if err != nil {
			return
		}
		now := time.Unix(1601000000, 0) // when the certificates of the seed were valid
		if p, err := checkResponder(certs, [32]byte{1}, now); err == nil {
			t.Fatalf("%v for a TLS certificate that nobody has", p)
		}
		checkInitiator(certs, now)
	})
}
