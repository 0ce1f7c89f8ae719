package hsclient

import (
	"time"

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

// known is a service that is remembered.
type known struct {
	service
	used time.Time // when a connection last needed it
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
	k := c.services[id]
	if k == nil {
		return service{}, false
	}
	k.used = time.Now()
	return k.service, true
}

// knowService remembers a service, unless a new identity was asked for since.
func (c *Client) knowService(s service, epoch int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.epoch != epoch || c.closed {
		return
	}
	makeRoom(c.services, maxCached, func(k *known) time.Time { return k.used }, func(id ident.Ed25519ID) { delete(c.services, id) })
	c.services[s.id] = &known{s, time.Now()}
}

func (c *Client) epochNow() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.epoch
}
