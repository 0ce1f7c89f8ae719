package chive

import (
	"context"
	"net"

	"github.com/chivenet/chive/internal/client"
	"github.com/chivenet/chive/internal/isolation"
	"github.com/chivenet/chive/internal/stream"
)

func init() {
	client.AskerOf = func(c any) client.Asker { return asker{c.(*Client)} }
	client.NewOver = func(cfg any, over client.Over) (any, error) { return newOver(cfg.(Config), over) }
	client.InnerOf = func(c any) *client.Client { return c.(*Client).inner }
}

// asker is a Client for the ports of this module.
type asker struct{ c *Client }

// DialRequest implements client.Asker, and is what DialContext does with a request, too.
func (a asker) DialRequest(ctx context.Context, req client.Request) (net.Conn, error) {
	req.Key = a.c.own(req.Key, req.Host, req.Port)
	conn, err := a.c.inner.Dial(ctx, req)
	if err != nil {
		return nil, err // not a nil connection in an interface
	}
	return conn, nil
}

// LookupRequest implements client.Asker, and is what Lookup does with a request, too.
func (a asker) LookupRequest(ctx context.Context, req client.Request) ([]stream.Answer, error) {
	req.Port = 0
	req.Key = a.c.own(req.Key, req.Host, 0)
	return a.c.inner.Resolve(ctx, req)
}

// StandsFor implements client.Asker.
func (a asker) StandsFor(host string) string { return a.c.inner.StandsFor(host) }

// own adds to the isolation key of a stream what this client and its configuration know.
func (c *Client) own(k isolation.Key, host string, port uint16) isolation.Key {
	k.By |= c.inner.Isolation()
	k.Child, k.Host, k.Port = c.token, host, port
	return k.Trim()
}

// key returns the isolation key of a stream.
func (c *Client) key(ctx context.Context, host string, port uint16) isolation.Key {
	w := wishOf(ctx)
	return c.own(w.key(c), host, port)
}
