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
	"time"

	"github.com/chivenet/chive/devp2p/internal/ethnode"
	"github.com/chivenet/chive/devp2p/internal/sidecar"
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

// TestSidecarStatus: chive-eth status shows what a sidecar's socket tells.
func TestSidecarStatus(t *testing.T) {
	dir := t.TempDir()
	status := sidecar.Status{Node: true, Leaks: []sidecar.Leak{{What: "discovery is on", Fix: "start geth with --nodiscover"}}, Record: onionNode(t, 1), Known: 5, Forwards: 3, Problem: "no circuits"}
	serve, err := serveStatus(dir, func() any { return map[string]any{"sidecar": newSidecarStatus(status, time.Now())} })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- serve(ctx) }()
	out, err := chiveEth(t, "status", "--data-dir", dir)
	for _, want := range []string{"node        up\n", "private     no\n", "discovery is on. start geth with --nodiscover\n", "record      enr:", "problem     no circuits\n", "3 onions that the node is told of, of 5"} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%v; want %q in:\n%s", err, want, out)
		}
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
