package client

import (
	"github.com/chivenet/chive/internal/hsclient"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
)

// OnionControl is what a controller may have a client do with onion services, beside what package chive shows: it
// has their addresses, which nothing else tells.
type OnionControl interface {
	// TellOnions has tell told of all that happens to descriptors from now on, and keeps their texts. It must not
	// block.
	TellOnions(tell netdir.HSTell)
	// HasDirectory reports whether the directory has a relay, with its microdescriptor.
	HasDirectory(ident.RSAID) bool
	// FetchDescriptor and PostDescriptor are hsclient.Client's FetchNow and PostNow.
	FetchDescriptor(id ident.Ed25519ID, from []ident.RSAID) error
	PostDescriptor(id ident.Ed25519ID, text []byte, to []ident.RSAID) error
	// Fetched is a descriptor that was fetched, and Served that of a service here; nil: there is none.
	Fetched(id ident.Ed25519ID) []byte
	Served(id ident.Ed25519ID) []byte
	// Serves reports whether a service runs here.
	Serves(id ident.Ed25519ID) bool
	// OnionKeys are the keys by which services know this client.
	OnionKeys() hsclient.Keys
}

// OnionControlOf returns the OnionControl of a *chive.Client. See AskerOf.
var OnionControlOf func(client any) OnionControl

var _ OnionControl = (*Client)(nil)

// TellOnions implements OnionControl.
func (c *Client) TellOnions(tell netdir.HSTell) {
	c.onionTold.Store(&tell)
	c.onion.KeepTexts(true)
}

// tellOnion tells who wants to know.
func (c *Client) tellOnion(e netdir.HSEvent) {
	if tell := c.onionTold.Load(); tell != nil {
		tell.Event(e)
	}
}

// HasDirectory implements OnionControl.
func (c *Client) HasDirectory(id ident.RSAID) bool { return c.Lists(id) }

// FetchDescriptor implements OnionControl.
func (c *Client) FetchDescriptor(id ident.Ed25519ID, from []ident.RSAID) error {
	return c.onion.FetchNow(id, from)
}

// PostDescriptor implements OnionControl.
func (c *Client) PostDescriptor(id ident.Ed25519ID, text []byte, to []ident.RSAID) error {
	return c.onion.PostNow(id, text, to)
}

// Fetched implements OnionControl.
func (c *Client) Fetched(id ident.Ed25519ID) []byte {
	select {
	case <-c.poolReady:
	default:
		return nil // and KeptText would wait
	}
	text, err := c.onion.KeptText(c.ctx, id)
	if err != nil {
		return nil // the directory has expired, or the client ends
	}
	return text
}

// Served implements OnionControl.
func (c *Client) Served(id ident.Ed25519ID) []byte {
	if s := c.services.get(id); s != nil {
		return s.Descriptor()
	}
	return nil
}

// Serves implements OnionControl.
func (c *Client) Serves(id ident.Ed25519ID) bool { return c.services.get(id) != nil }
