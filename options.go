package chive

import (
	"context"

	"github.com/chivenet/chive/internal/isolation"
)

// earlyKey is the context's key of early data.
type earlyKey struct{}

// WithIsolation returns a context whose streams and lookups share circuits only
// with those of an equal key, within one client. It isolates single calls;
// Isolated isolates a whole client. For example, a proxy can use its user's name
// and password as the key: the client keeps only a digest of it.
//
// The key decides when a connection is opened. Whoever keeps connections for later
// must keep those of each key apart, as HTTPClient does.
func WithIsolation(ctx context.Context, key string) context.Context {
	var k isolation.Key
	if key != "" {
		k.Auth = isolation.NewAuth(key)
	}
	return isolation.NewContext(ctx, k)
}

// WithEarlyData returns a context whose DialContext sends data together with the
// request to connect, one round trip sooner than a Write could. The data is lost
// if the exit refuses. The caller must not change data until DialContext returns.
func WithEarlyData(ctx context.Context, data []byte) context.Context {
	return context.WithValue(ctx, earlyKey{}, data)
}

func earlyOf(ctx context.Context) []byte {
	b, _ := ctx.Value(earlyKey{}).([]byte)
	return b
}
