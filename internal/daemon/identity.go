package daemon

import (
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/chivenet/chive"
)

// identityEvery is the least time between two new identities, as C tor's NEWNYM: each
// makes the client build new circuits.
const identityEvery = 10 * time.Second

// identity gives a client new identities, not too often.
type identity struct {
	renew func()
	log   *slog.Logger

	mu   sync.Mutex
	last time.Time // guarded by mu
}

// next makes a new identity, or says how long to wait before the next.
func (i *identity) next() reply {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := time.Now()
	if wait := i.last.Add(identityEvery).Sub(now); !i.last.IsZero() && wait > 0 {
		return reply{Wait: wait}
	}
	i.last = now
	i.renew()
	i.log.Info("a new identity: new streams use new circuits")
	return reply{Done: true}
}

// clientNode is a node with a client. It answers more requests than those for its status.
type clientNode interface {
	node
	newIdentity()
	network() *chive.Network
}

// answers returns the answers to requests on the status socket.
func (p *Process) answers() answers {
	refuse := reply{Error: "it is no client"}
	a := answers{
		status: p.node.status, log: &p.ring,
		newnym: func() reply { return refuse },
		agree:  func(request) reply { return refuse },
		reload: p.reloadAsked,
	}
	if n, ok := p.node.(clientNode); ok {
		id := &identity{renew: n.newIdentity, log: p.log}
		a.newnym = id.next
		a.agree = func(req request) reply { return p.agree(n.network(), req) }
	}
	return a
}

// agree tells whether the process uses a network, and has options with some values.
func (p *Process) agree(network *chive.Network, req request) (r reply) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if digest, err := networkDigest(network); err != nil || digest != req.Network {
		return reply{Error: "it is the client of another network"}
	}
	for _, key := range slices.Sorted(maps.Keys(req.Options)) {
		if v, ok := p.inEffect[key]; !ok || v != req.Options[key] {
			r.Differ = append(r.Differ, key)
		}
	}
	r.Done = len(r.Differ) == 0
	return r
}

// takeOver notes other values of options.
func (p *Process) takeOver(next *Settings) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.Copy(p.inEffect, next.Texts(true))
	p.latest = next
}

// networkDigest tells networks apart.
func networkDigest(n *chive.Network) (string, error) {
	text, err := n.MarshalText()
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), err
}
