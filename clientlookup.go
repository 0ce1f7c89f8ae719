package chive

import (
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/chivenet/chive/internal/client"
	"github.com/chivenet/chive/internal/fault"
)

// Answer is one answer to a lookup.
type Answer struct {
	Addr netip.Addr    // set in an answer for a host name
	Name string        // set in an answer for an address
	TTL  time.Duration // how long it may be cached
}

// Lookup asks an exit for the addresses of a host name, or, when host is an
// address, for its names. There is at least one answer, or an error.
func (c *Client) Lookup(ctx context.Context, host string) ([]Answer, error) {
	w := wishOf(ctx)
	family, err := w.familyOn("tcp")
	if err != nil {
		return nil, err
	}
	as, err := asker{c}.LookupRequest(ctx, client.Request{Host: host, Key: w.key(c), Family: family})
	if err != nil {
		return nil, err
	}
	out := make([]Answer, 0, len(as))
	for _, a := range as {
		out = append(out, Answer{Addr: a.Addr, Name: a.Name, TTL: time.Duration(a.TTL) * time.Second})
	}
	return out, nil
}

// Resolve looks the addresses of a host name up, at an exit.
func (c *Client) Resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	as, err := c.Lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	var out []netip.Addr
	for _, a := range as {
		if a.Addr.IsValid() {
			out = append(out, a.Addr)
		}
	}
	if len(out) == 0 {
		return nil, noAnswer("address")
	}
	return out, nil
}

// ResolvePTR looks the names of an address up, at an exit.
func (c *Client) ResolvePTR(ctx context.Context, addr netip.Addr) ([]string, error) {
	as, err := c.Lookup(ctx, addr.String())
	if err != nil {
		return nil, err
	}
	var out []string
	for _, a := range as {
		if a.Name != "" {
			out = append(out, a.Name)
		}
	}
	if len(out) == 0 {
		return nil, noAnswer("name")
	}
	return out, nil
}

// noAnswer is the error of an exit's answer without what was asked for.
func noAnswer(what string) error {
	return fault.New(fault.Network, "resolve: %w", &net.DNSError{Err: "the exit's answer has no " + what, Name: "[scrubbed]", IsNotFound: true})
}
