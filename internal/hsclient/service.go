package hsclient

import (
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hscrypto"
	"github.com/chivenet/chive/internal/ident"
)

// service is what follows from an address in one time period.
type service struct {
	id, blinded   ident.Ed25519ID
	subcredential [32]byte
	period        hscrypto.Period
}

// service returns a service's keys of a time period. Those of the last maxCached services
// are remembered: to make them takes longer than all that a client computes for one connection.
func (c *Client) service(id ident.Ed25519ID, period hscrypto.Period) (service, error) {
	if s, ok := c.knownService(id); ok && s.period == period {
		return s, nil
	}
	epoch := c.epochNow()
	blinded, err := hscrypto.Blind(id, period)
	if err != nil {
		return service{}, fault.New(fault.Config, "%w: %w", ErrAddress, err)
	}
	s := service{id, blinded, hscrypto.Subcredential(id, blinded), period}
	c.knowService(s, epoch)
	return s, nil
}

func (c *Client) knownService(id ident.Ed25519ID) (service, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.services[id]
	return s, ok
}

// knowService remembers a service, unless a new identity was asked for since.
func (c *Client) knowService(s service, epoch int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.epoch != epoch || c.closed {
		return
	}
	if len(c.services) >= maxCached {
		for id := range c.services {
			delete(c.services, id) // any: a map's order is random
			break
		}
	}
	c.services[s.id] = s
}

func (c *Client) epochNow() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.epoch
}
