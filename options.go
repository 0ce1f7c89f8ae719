package chive

import "context"

// isolationKey and earlyKey are the contexts' keys.
type (
	isolationKey struct{}
	earlyKey     struct{}
)

// WithIsolation returns a context whose streams and lookups share circuits
// only with those of an equal key, within one client: the isolation of one
// call, where Isolated is that of a client. A front door makes the key of its
// user's credentials, say.
func WithIsolation(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, isolationKey{}, key)
}

// WithEarlyData returns a context whose DialContext sends data together with
// the request to connect, one round trip sooner than a Write could. The
// network may lose it if the exit refuses; data must not be changed until
// DialContext returns.
func WithEarlyData(ctx context.Context, data []byte) context.Context {
	return context.WithValue(ctx, earlyKey{}, data)
}

func isolationOf(ctx context.Context) string {
	s, _ := ctx.Value(isolationKey{}).(string)
	return s
}

func earlyOf(ctx context.Context) []byte {
	b, _ := ctx.Value(earlyKey{}).([]byte)
	return b
}
