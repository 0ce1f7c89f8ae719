package channel

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
)

// TestExpectedIdentity: a link opens only to a relay that proves each identity that was
// asked for, and names the one that it does not prove. Half an identity is compared, too.
func TestExpectedIdentity(t *testing.T) {
	k := keys(t)
	for _, c := range []struct {
		want ident.RelayID
		err  string
	}{
		{k.ID, ""},
		{ident.RelayID{RSA: k.ID.RSA}, ""},
		{ident.RelayID{Ed: k.ID.Ed}, ""},
		{ident.RelayID{RSA: k.ID.RSA, Ed: ident.Ed25519ID{1}}, "Ed25519"},
		{ident.RelayID{Ed: ident.Ed25519ID{1}}, "Ed25519"},
		{ident.RelayID{RSA: ident.RSAID{1}, Ed: k.ID.Ed}, "RSA"},
		{ident.RelayID{RSA: ident.RSAID{1}}, "RSA"},
	} {
		a, b := tcpPair(t)
		l, r, err, _ := shake(t, a, b, c.want, &LinkConfig{}, &LinkConfig{Identity: k})
		if c.err == "" && (err != nil || l.Peer != k.ID) {
			t.Errorf("%+v: %v", c.want, err)
		}
		if c.err != "" && (!fault.Is(err, fault.Protocol) || !strings.Contains(err.Error(), c.err+" identity is not the expected")) {
			t.Errorf("%+v: %v", c.want, err)
		}
		for _, end := range []*Link{l, r} {
			if end != nil {
				end.Conn.Close()
			}
		}
	}
}

// TestTLSFailsAtOnce: a connection that opens at once, and whose TLS handshake fails, leaves
// neither a channel nor an attempt nor memory behind; the next circuit dials again.
func TestTLSFailsAtOnce(t *testing.T) {
	k, memory, dialled := keys(t), account.New(1<<30), 0
	m := NewManager(&Config{Log: slog.New(slog.DiscardHandler), Now: time.Now, Memory: memory}, &LinkConfig{Memory: memory}, func(context.Context, netip.AddrPort) (net.Conn, error) {
		a, b := tcpPair(t)
		switch dialled++; dialled {
		case 1: // it is closed before the first byte
			b.Close()
		case 2: // it speaks no TLS
			if _, err := b.Write([]byte("HTTP/1.0 400 no\r\n\r\n")); err != nil {
				return nil, err
			}
			b.Close()
		default:
			go func() {
				if l, err := Accept(context.WithoutCancel(t.Context()), b, &LinkConfig{Identity: k}); err == nil {
					t.Cleanup(func() { l.Conn.Close() })
				}
			}()
		}
		return a, nil
	})
	defer m.Close()
	target := linkspec.Target{RelayID: k.ID, Addrs: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:9001")}}
	for i := range 2 {
		if ch, err := m.Get(t.Context(), target); err == nil || ch != nil {
			t.Fatalf("dial %d: a channel: %v", i, err)
		}
		m.mu.Lock()
		if n := len(m.opening); n != 0 || m.findLocked(&target) != nil || memory.Used() != 0 {
			t.Errorf("dial %d: %d attempts and %d bytes are left", i, n, memory.Used())
		}
		m.mu.Unlock()
	}
	ch, err := m.Get(t.Context(), target)
	if err != nil || dialled != 3 {
		t.Fatalf("%d dials: %v", dialled, err)
	}
	ch.Close(errors.New("the test ends"))
}

// TestPaddingTimes: the time until padding is the greater of two samples between the two
// bounds (padding-spec 2.2), so that it is two thirds of the way on the average.
func TestPaddingTimes(t *testing.T) {
	const low, high = 1500 * time.Millisecond, 9500 * time.Millisecond
	p := &padder{ch: &Channel{cfg: &Config{Padding: NewPadding(PaddingConfig{Low: low, High: high, KeepAlive: time.Hour})}, link: &Link{Initiator: true}}}
	p.used.Store(true)
	const n = 20000
	var sum, early float64
	for range n {
		d := p.pick()
		if d < low || d >= high {
			t.Fatal(d)
		}
		part := float64(d-low) / float64(high-low)
		sum += part
		if part < .25 {
			early++
		}
	}
	// The standard deviations of the two are 0.0017 and 0.0017.
	if math.Abs(sum/n-2./3) > .01 || math.Abs(early/n-1./16) > .01 {
		t.Errorf("the mean is %.3f of the way; %.3f are in the first quarter", sum/n, early/n)
	}
	p.ch.cfg.Padding.Set(PaddingConfig{Low: low, High: low})
	if d := p.pick(); d != low {
		t.Errorf("without a span: %v", d)
	}
	p.ch.cfg.Padding.Set(PaddingConfig{KeepAlive: time.Hour})
	if d := p.pick(); d != time.Hour {
		t.Errorf("without padding: %v", d)
	}
}
