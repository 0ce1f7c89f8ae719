package pt

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/fault"
)

// pipeRW is a peer that has said all it says, and keeps what it hears.
type pipeRW struct {
	io.Reader
	bytes.Buffer
}

func (p *pipeRW) Read(b []byte) (int, error) { return p.Reader.Read(b) }

// TestSocksDialler holds the dialler to the protocol's text for SOCKS4; package plugin has the other side of SOCKS5.
func TestSocksDialler(t *testing.T) {
	p := &pipeRW{Reader: strings.NewReader("\x00\x5a......")}
	four := Method{Proto: "socks4"}
	if err := four.ask(p, netip.MustParseAddrPort("192.0.2.1:258"), "a=b"); err != nil || p.String() != "\x04\x01\x01\x02\xc0\x00\x02\x01a=b\x00" {
		t.Errorf("%q %v", p.String(), err)
	}
	// Without its arguments, a transport does not know where to go.
	p = &pipeRW{Reader: strings.NewReader("\x05\x00\x05\x00\x00\x01abcdef")}
	if err := (Method{Proto: "socks5"}).ask(p, netip.MustParseAddrPort("192.0.2.1:1"), "a=b"); !fault.Is(err, fault.Protocol) {
		t.Error(err)
	}
}

// TestDialGivesUp: a proxy that says nothing doesn't hold the caller.
func TestDialGivesUp(t *testing.T) {
	a, b := net.Pipe()
	defer b.Close()
	go io.Copy(io.Discard, b)
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped by the test")
	go cancel(stopped)
	m := Method{Proto: "socks5"}
	_, err := m.Dial(ctx, func(context.Context, netip.AddrPort) (net.Conn, error) { return a, nil }, netip.MustParseAddrPort("192.0.2.1:1"), nil)
	if !errors.Is(err, stopped) {
		t.Error(err)
	}
}
