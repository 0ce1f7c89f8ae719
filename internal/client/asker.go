package client

import (
	"context"
	"net"
	"time"

	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/stream"
	"github.com/chivenet/chive/internal/upstream"
)

// Request asks for a stream or a lookup.
type Request = stream.Request

// Asker is a client of the public package as the ports of this module ask it: with a request that is
// one value. The methods of that package take texts and contexts, because it shows no internal type.
// The client adds what is its own to the request's key: its child's number, and what it isolates by.
type Asker interface {
	// DialRequest opens the stream that a request asks for.
	DialRequest(ctx context.Context, req Request) (net.Conn, error)
	// LookupRequest looks up the addresses of the request's host or, if it is an address, its names.
	LookupRequest(ctx context.Context, req Request) ([]stream.Answer, error)
	// StandsFor returns the host that a host stands for, by the rules of MapAddress.
	StandsFor(host string) string
}

// AskerOf returns the Asker of a *chive.Client. Package chive sets it at its start: it is above this
// package, and an exported method of its Client would be public.
var AskerOf func(client any) Asker

// InnerOf returns the client inside a *chive.Client, for the control port: what that may see and do is not public.
// Package chive sets it at its start.
var InnerOf func(client any) *Client

// Over is what a client may have of its own, for the laboratory and for the program tor.
type Over struct {
	// Dial opens its connections, on a network that is not the kernel's; nil: TCP.
	Dial upstream.DialFunc
	// Prompt has it build its first circuits as soon as it can, and not at the next second, as C tor's clients do.
	Prompt bool
	// Rest has it begin dormant, and Unused says for how long nobody has used the one before: see Rest and LastUse.
	Rest   bool
	Unused time.Duration
}

// NewOver is New of package chive, for a client with something of its own: cfg is a chive.Config, and the answer a
// *chive.Client. Package chive sets it at its start.
var NewOver func(cfg any, over Over) (client any, err error)

// StandsFor returns the host that a host stands for, by the rules of MapAddress.
func (c *Client) StandsFor(host string) string {
	to, err := c.mapped(host)
	if err != nil {
		return host
	}
	return to
}

// LinkUse returns the use of the client's links.
func (c *Client) LinkUse() []channel.LinkUse { return c.chans.Use() }

// Built returns what the circuit with a number is made of, for the laboratory; nil: there is none, or it is not built.
func (c *Client) Built(id uint64) *circuit.Circuit {
	if l := c.lives.circuit(id); l != nil {
		_, built := l.counted()
		return built
	}
	return nil
}
