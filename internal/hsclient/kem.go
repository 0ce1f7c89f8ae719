package hsclient

import (
	"crypto/rand"

	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
)

// protects refuses a service that cannot give the protection that the configuration
// demands.
func (c *Client) protects(desc *cached) error {
	if c.cfg.PQ == circuit.PQRequireAll && desc.inner.KEM == nil {
		return fault.New(fault.Refused, "onion service: %w", ErrClassical)
	}
	return nil
}

// encapsulate makes a ciphertext for one introduction (docs/spec/pq-onions.md), or nil
// if the service has no key or the configuration wants none. From then on the service
// must answer with it: there is no other way to meet a service that has a key.
func (c *Client) encapsulate(desc *cached) (*handshake.HSKEMClient, error) {
	if c.cfg.PQ == circuit.PQOff || desc.inner.KEM == nil {
		return nil, nil
	}
	return handshake.HSKEMEncapsulate(rand.Reader, desc.blinded, desc.inner.KEM)
}
