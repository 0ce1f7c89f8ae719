package chive

import (
	"context"

	"github.com/chivenet/chive/internal/isolation"
)

// earlyKey is the context's key of early data.
type earlyKey struct{}

// WithIsolation returns a context whose streams and lookups share circuits
// only with those of an equal key, within one client: the isolation of one
// call, where Isolated is that of a client. A proxy makes the key of its user's
// name and password, for example: the client keeps a digest of it only.
func WithIsolation(ctx context.Context, key string) context.Context {
	var k isolation.Key
	if key != "" {
		k.Auth = isolation.NewAuth(key)
	}
	return isolation.NewContext(ctx, k)
}

// WithEarlyData returns a context whose DialContext sends data together with
// the request to connect, one round trip sooner than a Write could. The
// network may lose it if the exit refuses; data must not be changed until
// DialContext returns.
func WithEarlyData(ctx context.Context, data []byte) context.Context {
	return context.WithValue(ctx, earlyKey{}, data)
}

func earlyOf(ctx context.Context) []byte {
	b, _ := ctx.Value(earlyKey{}).([]byte)
	return b
}
