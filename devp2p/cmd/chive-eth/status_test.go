package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/chivenet/chive/program/programtest"
)

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
