package chive

import (
	"context"
	"strings"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/isolation"
	"github.com/chivenet/chive/internal/stream"
)

// wish is what a context asks for of the streams and lookups that it is given to: the one value that
// the functions With... of this package put into it.
type wish struct {
	auth    isolation.Auth
	every   bool // each stream has a circuit of its own
	country string
	family  IPFamily
	early   []byte
}

type wishKey struct{}

func wishOf(ctx context.Context) wish {
	w, _ := ctx.Value(wishKey{}).(wish)
	return w
}

// with returns a context with another wish.
func with(ctx context.Context, set func(*wish)) context.Context {
	w := wishOf(ctx)
	set(&w)
	return context.WithValue(ctx, wishKey{}, w)
}

// key returns what the wish says of the circuits that a stream of a client may use.
func (w *wish) key(c *Client) isolation.Key {
	k := isolation.Key{Auth: w.auth, Country: w.country}
	if w.every {
		k.Stream = c.alone.Add(1)
	}
	return k
}

// WithIsolation returns a context whose streams and lookups share circuits only
// with those of an equal key, within one client. It isolates single calls;
// Isolated isolates a whole client. For example, a proxy can use its user's name
// and password as the key: the client keeps only a digest of it.
//
// The key decides when a connection is opened. Whoever keeps connections for later
// must keep those of each key apart, as HTTPClient does.
func WithIsolation(ctx context.Context, key string) context.Context {
	var auth isolation.Auth
	if key != "" {
		auth = isolation.NewAuth(key)
	}
	return with(ctx, func(w *wish) { w.auth = auth })
}

// WithIsolateEveryStream returns a context whose streams and lookups have a circuit each, which
// nothing else uses, before or after. An HTTPClient opens a connection for each request then.
func WithIsolateEveryStream(ctx context.Context) context.Context {
	return with(ctx, func(w *wish) { w.every = true })
}

// WithExitCountry returns a context whose streams and lookups leave the network by an exit in a
// country, such as "de"; empty: in any. Config.GeoIPFile says where exits are. If no exit is
// there that can be used, there is an error (ErrConfig), and no stream. A country makes a client stand out.
// It has no meaning for hosts below .onion, to which no exit leads.
func WithExitCountry(ctx context.Context, country string) context.Context {
	return with(ctx, func(w *wish) { w.country = strings.ToLower(country) })
}

// IPFamily says which addresses of a host an exit may connect to, and which lookups return.
type IPFamily uint8

// The families. With one of the Only families, a host without such an address cannot be reached.
const (
	FamilyAny        IPFamily = iota // IPv4 is preferred
	FamilyIPv4Only                   // as the network "tcp4"
	FamilyIPv6Only                   // as the network "tcp6"
	FamilyPreferIPv4                 // both; exits do this by themselves
	FamilyPreferIPv6                 // both, and IPv6 if the host has it
)

// String returns "any", "ipv4-only", "ipv6-only", "prefer-ipv4" or "prefer-ipv6".
func (f IPFamily) String() string {
	return nameOf([]string{"any", "ipv4-only", "ipv6-only", "prefer-ipv4", "prefer-ipv6"}, uint8(f))
}

// WithIPFamily returns a context whose streams and lookups are of a family. It has no meaning for
// hosts below .onion, which have no addresses.
func WithIPFamily(ctx context.Context, f IPFamily) context.Context {
	return with(ctx, func(w *wish) { w.family = f })
}

// familyOn returns the family of a stream or a lookup. network is "tcp", "tcp4" or "tcp6".
func (w *wish) familyOn(network string) (f stream.Family, err error) {
	switch w.family {
	case FamilyAny, FamilyPreferIPv4:
	case FamilyIPv4Only:
		f = stream.IPv4Only
	case FamilyIPv6Only:
		f = stream.IPv6Only
	case FamilyPreferIPv6:
		f = stream.IPv6First
	default:
		return f, fault.New(fault.Config, "dial: %d is no family of addresses", w.family)
	}
	only := map[string]stream.Family{"tcp4": stream.IPv4Only, "tcp6": stream.IPv6Only}
	want, ok := only[network]
	switch {
	case network == "tcp":
		return f, nil
	case !ok:
		return f, fault.New(fault.Config, "dial: the network %q cannot be used: Tor carries tcp, tcp4 and tcp6", network)
	case f == stream.IPv4Only && want == stream.IPv6Only, f == stream.IPv6Only && want == stream.IPv4Only:
		return f, fault.New(fault.Config, "dial: the network is %s, and the context asks for addresses of the other family only", network)
	}
	return want, nil
}

// WithEarlyData returns a context whose DialContext sends data together with the
// request to connect, one round trip sooner than a Write could. The data is lost
// if the exit refuses. The caller must not change data until DialContext returns.
func WithEarlyData(ctx context.Context, data []byte) context.Context {
	return with(ctx, func(w *wish) { w.early = data })
}
