package channel

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// Probes of an ORPort, which must be answered as C tor answers them.

// TestNoTLSIsReset: a connection that begins with something that is no record of TLS is reset, as C tor's kernel does with bytes that
// nobody has read. One that has sent no more than C tor reads ends in order.
func TestNoTLSIsReset(t *testing.T) {
	for sent, want := range map[string]error{"GET / HTTP/1.1\r\n\r\n": syscall.ECONNRESET, "GET /": io.EOF} {
		a, b := tcpPair(t)
		done := make(chan error)
		go func() {
			_, err := Accept(t.Context(), b, &LinkConfig{Identity: keys(t)})
			done <- err
		}()
		if _, err := io.WriteString(a, sent); err != nil {
			t.Fatal(err)
		}
		if n, err := a.Read(make([]byte, 100)); n != 0 || !errors.Is(err, want) {
			t.Errorf("after %q: %d bytes, %v", sent, n, err)
		}
		if err := <-done; !fault.Is(err, fault.Protocol) {
			t.Errorf("after %q: %v", sent, err)
		}
		a.Close()
	}
}

// TestWholeCellAwaited: what is no cell, such as a request of HTTP within TLS, is refused when a whole cell of it is there.
func TestWholeCellAwaited(t *testing.T) {
	begin := append([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), make([]byte, earlyFixed)...)[:earlyFixed]
	k := keys(t) // outside of the bubble, whose clock is another
	for n, want := range map[int]fault.Kind{earlyFixed - 1: fault.Timeout, earlyFixed: fault.Protocol} {
		synctest.Test(t, func(t *testing.T) {
			a, b := net.Pipe()
			conn := tls.Client(a, &tls.Config{InsecureSkipVerify: true})
			go func() {
				_, _ = conn.Write(begin[:n])
				_, _ = io.Copy(io.Discard, conn)
			}()
			_, err := Accept(t.Context(), b, &LinkConfig{Identity: k})
			if !fault.Is(err, want) {
				t.Errorf("%d bytes: %v", n, err)
			}
			a.Close()
		})
	}
}

// TestLongHandshake: a bridge may have more patience with a handshake than HandshakeTimeout.
func TestLongHandshake(t *testing.T) {
	k := keys(t)
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		defer a.Close()
		began := time.Now()
		_, err := Accept(t.Context(), b, &LinkConfig{Identity: k, Timeout: 5 * HandshakeTimeout})
		if took := time.Since(began); !fault.Is(err, fault.Timeout) || took != 5*HandshakeTimeout {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// TestEndIsAnswered: a bridge answers the end of a connection by an alert, as OpenSSL does, in the handshake and after it. Other relays
// do not.
func TestEndIsAnswered(t *testing.T) {
	k := keys(t)
	for _, common := range []bool{true, false} {
		for _, whole := range []bool{true, false} {
			a, b := tcpPair(t)
			cfg := &LinkConfig{Identity: k, Common: common}
			m := NewManager(&Config{Now: time.Now}, cfg, nil)
			accepted := make(chan struct{})
			go func() {
				defer close(accepted)
				_, _ = m.Accept(t.Context(), b)
			}()
			if whole {
				if _, err := Connect(t.Context(), a, k.ID, netip.MustParseAddrPort("127.0.0.1:9001"), &LinkConfig{}); err != nil {
					t.Fatal(err)
				}
				<-accepted
			} else {
				c := tls.Client(a, &tls.Config{InsecureSkipVerify: true})
				if err := c.HandshakeContext(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if err := a.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(a)
			const alert = 5 + 2 + 1 + 16 // a record's header, the alert, its kind, the tag
			if answered := len(got) == alert; answered != common || err != nil || !common && len(got) > 0 {
				t.Errorf("common %v, link %v: %d bytes, %v", common, whole, len(got), err)
			}
			<-accepted
			m.Close()
		}
	}
}
