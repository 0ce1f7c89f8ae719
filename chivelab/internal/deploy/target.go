package deploy

import (
	"context"
	"io"
	"net"
	"sync"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/metrics"
)

// maxConns bounds the connections that the target serves at once: more wait.
const maxConns = 256

// ServeTarget sends back what it reads, on each connection of l, until ctx ends.
func ServeTarget(ctx context.Context, l net.Listener, reg *metrics.Registry) error {
	conns := reg.Counter("deploy_target_connections_total", "connections that the target took")
	sent := reg.Counter("deploy_target_bytes_total", "bytes that the target sent back")
	defer context.AfterFunc(ctx, func() { l.Close() })()
	places := make(chan struct{}, maxConns)
	var serving sync.WaitGroup
	defer serving.Wait()
	for {
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		c, err := l.Accept()
		if ctx.Err() != nil {
			if err == nil {
				c.Close()
			}
			return nil
		}
		if err != nil {
			return fault.New(fault.Local, "target: %w", err)
		}
		conns.Inc()
		serving.Go(func() {
			defer func() { <-places }()
			defer c.Close()
			defer context.AfterFunc(ctx, func() { c.Close() })()
			n, _ := io.CopyBuffer(struct{ io.Writer }{c}, struct{ io.Reader }{c}, make([]byte, 4096)) // the peer has gone
			sent.Add(uint64(n))
		})
	}
}
