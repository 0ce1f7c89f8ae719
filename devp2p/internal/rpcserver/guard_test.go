package rpcserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/chivenet/chive/program/programtest"
)

// TestGuard: the port answers programs of this machine, and no web page.
func TestGuard(t *testing.T) {
	const body = `{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}`
	programtest.WalkHTTP(t, programtest.HTTPPort{
		Line: "POST / HTTP/1.1", Header: fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n", len(body)), Body: body,
		OK: "HTTP/1.1 200 ",
		Serve: func(l net.Listener) func() {
			ctx, cancel := context.WithCancel(context.Background())
			var all sync.WaitGroup
			all.Go(func() {
				if err := (&Server{Methods: Methods(new(fakeNode))}).Serve(ctx, l); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
			return func() { cancel(); all.Wait() }
		},
	})
}
