package chive

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/chivenet/chive/internal/stream"
)

// TestFamilies: the network and the context together say what an exit may connect to, and what cannot be both
// is refused.
func TestFamilies(t *testing.T) {
	for _, x := range []struct {
		f       IPFamily
		network string
		want    stream.Family
		ok      bool
	}{
		{FamilyAny, "tcp", stream.AnyFamily, true}, {FamilyPreferIPv4, "tcp", stream.AnyFamily, true}, {FamilyPreferIPv6, "tcp", stream.IPv6First, true},
		{FamilyIPv4Only, "tcp", stream.IPv4Only, true}, {FamilyIPv6Only, "tcp", stream.IPv6Only, true},
		{FamilyIPv6Only, "tcp6", stream.IPv6Only, true}, {FamilyIPv4Only, "tcp4", stream.IPv4Only, true}, {FamilyPreferIPv6, "tcp4", stream.IPv4Only, true},
		{FamilyIPv6Only, "tcp4", 0, false}, {FamilyIPv4Only, "tcp6", 0, false}, {FamilyPreferIPv6 + 1, "tcp", 0, false}, {FamilyAny, "udp", 0, false},
	} {
		w := wishOf(WithIPFamily(t.Context(), x.f))
		got, err := w.familyOn(x.network)
		if x.ok && (err != nil || got != x.want) || !x.ok && !errors.Is(err, ErrConfig) {
			t.Errorf("%v, %s: %v, %v", x.f, x.network, got, err)
		}
	}
	// The last word counts, as with WithIsolation.
	w := wishOf(WithIPFamily(WithIPFamily(t.Context(), FamilyIPv6Only), FamilyPreferIPv4))
	if got, err := w.familyOn("tcp"); err != nil || got != stream.AnyFamily {
		t.Error(got, err)
	}
}

// TestKeyOfPreferences: preferences are a part of what keeps streams apart, beside WithIsolation.
func TestKeyOfPreferences(t *testing.T) {
	c := openClient(t)
	ctx := WithIsolation(WithExitCountry(t.Context(), "DE"), "a")
	k := c.key(ctx, "", 0)
	if k.Country != "de" || k.Stream != 0 || k != c.key(WithExitCountry(WithIsolation(t.Context(), "a"), "de"), "", 0) {
		t.Errorf("country %q", k.Country)
	}
	if k.MayShare(c.key(WithIsolation(t.Context(), "a"), "", 0)) || k.MayShare(c.key(WithExitCountry(ctx, "fr"), "", 0)) || c.key(WithExitCountry(ctx, ""), "", 0).Country != "" {
		t.Error("other countries share")
	}
	alone := WithIsolateEveryStream(ctx)
	one, two, child := c.key(alone, "", 0), c.key(alone, "", 0), c.Isolated().key(alone, "", 0)
	if one.Stream == 0 || one.MayShare(two) || one.Stream == child.Stream || one.MayShare(k) {
		t.Error("streams of their own share")
	}
}

// TestHTTPClientKeepsPreferences: a request gets no connection that was opened with other
// preferences, and one that wants a circuit of its own gets a connection of its own.
func TestHTTPClientKeepsPreferences(t *testing.T) {
	w := newWebClient(t, newWebServer(t))
	ctx := WithIsolation(t.Context(), "a")
	get := func(req *http.Request, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		resp, err := w.web.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		from, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(from)
	}
	seen := map[string]string{}
	again := func(what string) {
		t.Helper()
		if other, ok := seen[what]; ok {
			t.Errorf("it has the connection of %s", other)
		}
	}
	for name, ctx := range map[string]context.Context{
		"none": ctx, "a country": WithExitCountry(ctx, "de"), "another": WithExitCountry(ctx, "fr"),
		"IPv4": WithIPFamily(ctx, FamilyIPv4Only), "IPv6 first": WithIPFamily(ctx, FamilyPreferIPv6),
	} {
		from := get(http.NewRequestWithContext(ctx, http.MethodGet, w.server.URL, nil))
		again(from)
		seen[from] = name
		if get(http.NewRequestWithContext(ctx, http.MethodGet, w.server.URL, nil)) != from {
			t.Errorf("%s: a connection is not used again", name)
		}
	}
	for range 3 {
		from := get(http.NewRequestWithContext(WithIsolateEveryStream(ctx), http.MethodGet, w.server.URL, nil))
		again(from)
		seen[from] = "another request"
		if closed := w.server.wait(t); closed != from {
			t.Errorf("the connection %s is closed, not %s", closed, from)
		}
	}
	if n := len(w.web.Transport.(*httpTransport).open()); n != 5 {
		t.Errorf("connections of %d keys are kept", n)
	}
}
