package outbound

import (
	"bytes"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/netaddr"
)

func sources(t *testing.T, list ...string) netaddr.Sources {
	t.Helper()
	s, err := netaddr.ParseSources(list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestLocal: no address is nil, and not a *net.TCPAddr that is nil, for which package net ends.
func TestLocal(t *testing.T) {
	s := sources(t, "192.0.2.5")
	if a := Local(s, netip.MustParseAddr("198.51.100.1")); a == nil || a.String() != "192.0.2.5:0" {
		t.Error(a)
	}
	if a := Local(s, netip.MustParseAddr("2001:db8::1")); a != nil {
		t.Error(a)
	}
	if a := Any(sources(t, "2001:db8::5")); a == nil || a.String() != "[2001:db8::5]:0" {
		t.Error(a)
	}
	if a := Any(s); a == nil || a.String() != "192.0.2.5:0" {
		t.Error(a)
	}
	if a := Any(netaddr.Sources{}); a != nil {
		t.Error(a)
	}
}

// TestWarn: each address that this machine does not have is told once.
func TestWarn(t *testing.T) {
	var b bytes.Buffer
	log := slog.New(slog.NewTextHandler(&b, nil))
	Warn(log, sources(t, "127.0.0.1"), netaddr.Sources{})
	if b.Len() > 0 {
		t.Error(b.String())
	}
	Warn(log, sources(t, "192.0.2.5", "2001:db8::5"), sources(t, "192.0.2.5"), sources(t, "127.0.0.1"))
	if n := strings.Count(b.String(), "a source address of outbound-bind-address cannot be used"); n != 2 {
		t.Errorf("%d lines: %s", n, b.String())
	}
}
