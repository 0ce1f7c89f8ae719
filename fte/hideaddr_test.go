package fte

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"github.com/chivenet/chive/internal/fault"
)

func TestHideAddr(t *testing.T) {
	at := &net.TCPAddr{IP: net.IPv4(203, 0, 113, 5), Port: 8080}
	reset := &net.OpError{Op: "read", Net: "tcp", Source: at, Addr: at, Err: syscall.ECONNRESET}
	lookup := &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "bridge.example.com", Server: "203.0.113.5:53"}}
	for want, err := range map[string]error{
		"reading: read: connection reset by peer": fault.New(fault.Network, "reading: %w", reset),
		"dial: no such host":                      lookup,
		"dial: missing port in address":           &net.OpError{Op: "dial", Net: "tcp", Err: &net.AddrError{Err: "missing port in address", Addr: "203.0.113.5"}},
		"asking: read: connection reset by peer":  fault.New(fault.Network, "asking: %w", &url.Error{Op: "Post", URL: "http://203.0.113.5/", Err: reset}),
		"nothing to hide":                         errors.New("nothing to hide"),
	} {
		if got := HideAddr(err); got != want {
			t.Errorf("%q is told as %q", err, got)
		}
	}
}

// TestLogHasNoAddress lets a proxy fail to reach its other side.
func TestLogHasNoAddress(t *testing.T) {
	gone := loopback(t)
	gone.Close()
	var log bytes.Buffer
	l := loopback(t)
	p := &Proxy{Dial: dialTo(gone.Addr().String()), Log: slog.New(slog.NewTextHandler(&log, nil))}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- p.Serve(ctx, l) }()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Fatal("who answers?")
	}
	cancel()
	if err := <-served; err != nil {
		t.Fatal(err)
	}
	if err := p.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := log.String(); !strings.Contains(s, "refused") || strings.Contains(s, "127.0.0.1") {
		t.Errorf("the log says %q", s)
	}
}
