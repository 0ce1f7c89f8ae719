package client

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hsservice"
	"github.com/chivenet/chive/internal/ident"
)

// services has the onion services of a client. They begin one after the other.
type services struct {
	any atomic.Bool // one has begun

	mu     sync.Mutex // held while a service begins; guards what follows
	single bool       // a single onion service has begun
	byKey  map[ident.Ed25519ID]*hsservice.Service
}

// begin has start start a service, unless the client's context has ended, and notes it. first says
// that there was no single onion service before. Two services of one key would replace each other's descriptors, unless they are
// a fleet.
func (v *services) begin(ctx context.Context, cfg *hsservice.Config, start func(first bool) (*hsservice.Service, error)) (*hsservice.Service, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if cfg.Key != nil && !cfg.Fleet && v.hasLocked(cfg.Key.ID()) {
		return nil, fault.New(fault.Config, "onion service: this client serves that key already, and each would replace the other's descriptors")
	}
	v.any.Store(true)
	s, err := start(!v.single)
	if err != nil {
		return nil, err
	}
	v.single = v.single || cfg.Single
	if v.byKey == nil {
		v.byKey = map[ident.Ed25519ID]*hsservice.Service{}
	}
	v.byKey[cfg.Key.ID()] = s
	return s, nil
}

// hasLocked reports whether a service of a key runs.
func (v *services) hasLocked(id ident.Ed25519ID) bool {
	s := v.byKey[id]
	if s == nil {
		return false
	}
	select {
	case <-s.Done():
		return false
	default:
		return true
	}
}

func (v *services) forget(id ident.Ed25519ID, s *hsservice.Service) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.byKey[id] == s {
		delete(v.byKey, id)
	}
}

// wait waits until no service begins. After the client's context has ended none begins any more.
func (v *services) wait() {
	v.mu.Lock()
	defer v.mu.Unlock()
}

// get returns the service of a key that runs; nil: none.
func (v *services) get(id ident.Ed25519ID) *hsservice.Service {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.hasLocked(id) {
		return nil
	}
	return v.byKey[id]
}
