package daemon

import (
	"context"
	"log/slog"
	"net"
	"sync"

	"github.com/chivenet/chive/internal/panics"
)

// serveLocal serves a port of this machine until stop, which waits for its requests. If it ends by itself, fail hears why.
func serveLocal(serve func(context.Context, net.Listener) error, l net.Listener, log *slog.Logger, fail func(error)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() {
		defer panics.Recover(log, fail)
		if err := serve(ctx, l); ctx.Err() == nil {
			fail(err)
		}
	})
	return func() { cancel(); serving.Wait() }
}
