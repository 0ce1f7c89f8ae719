package main

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/chivenet/chive/internal/localhttp/guardtest"
)

// TestStatusGuard: the metrics port and the status socket answer programs of this machine,
// and no web page.
func TestStatusGuard(t *testing.T) {
	for _, path := range []string{"/metrics", "/status"} {
		guardtest.Walk(t, guardtest.Port{
			Line: "GET " + path + " HTTP/1.1", OK: "HTTP/1.1 200 ",
			Serve: func(l net.Listener) func() {
				ctx, cancel := context.WithCancel(context.Background())
				var all sync.WaitGroup
				all.Go(func() {
					serve := serveHTTP(l, path, "text/plain", func(w io.Writer) error { _, err := io.WriteString(w, "secret"); return err })
					if err := serve(ctx); !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
				})
				return func() { cancel(); all.Wait() }
			},
		})
	}
}
