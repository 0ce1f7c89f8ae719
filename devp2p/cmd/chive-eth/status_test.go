package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/chivenet/chive/devp2p/internal/ethnode"
	"github.com/chivenet/chive/program/programtest"
)

// TestStatusRules: status shows the rules for classes if there is one, and what they kept back.
func TestStatusRules(t *testing.T) {
	var s relayStatus
	s.Node.Rules = []ethnode.ClassStatus{{Class: "headers", Way: ethnode.ByAny, Peers: 3}}
	var b bytes.Buffer
	if err := s.print(&b); err != nil || strings.Contains(b.String(), "classes") {
		t.Errorf("no rules: %v\n%s", err, b.String())
	}
	s.Node.Rules = append(s.Node.Rules, ethnode.ClassStatus{Class: "bodies", Way: ethnode.ByAddress, Peers: 2, Barred: 7})
	b.Reset()
	if err := s.print(&b); err != nil || !strings.Contains(b.String(), "  bodies   clearnet  2 peers  7 kept back\n") {
		t.Errorf("rules: %v\n%s", err, b.String())
	}
}

// TestStatusGuard: the metrics port and the status socket answer programs of this machine,
// and no web page.
func TestStatusGuard(t *testing.T) {
	for _, path := range []string{"/metrics", "/status"} {
		programtest.WalkHTTP(t, programtest.HTTPPort{
			Line: "GET " + path + " HTTP/1.1", OK: "HTTP/1.1 200 ",
			Serve: func(l net.Listener) func() {
				ctx, cancel := context.WithCancel(context.Background())
				var all sync.WaitGroup
				all.Go(func() {
					serve := serveHTTP(l, path, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "secret") }))
					if err := serve(ctx); !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
				})
				return func() { cancel(); all.Wait() }
			},
		})
	}
}
