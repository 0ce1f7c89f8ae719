package channel

import (
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
)

// LinkStep is what has happened to a link that this process opens.
type LinkStep uint8

// The steps.
const (
	LinkLaunched LinkStep = iota
	LinkOpened
	LinkFailed // it never came to be open
	LinkClosed
)

// LinkReport is a link to a relay as it is after a step.
type LinkReport struct {
	ID    uint64 // unique within the process's Manager
	Step  LinkStep
	Relay ident.RSAID // whom it leads to
	Err   error       // why it failed or ended
}

// tell tells who watches links, if somebody does.
func (m *Manager) tell(id uint64, step LinkStep, relay ident.RSAID, err error) {
	if m.cfg.Watch != nil && id != 0 {
		m.cfg.Watch(LinkReport{id, step, relay, err})
	}
}

// launched gives an attempt its number, and tells of it.
func (m *Manager) launched(t *linkspec.Target) uint64 {
	id := m.links.Add(1)
	m.tell(id, LinkLaunched, t.RSA, nil)
	return id
}

// Links returns the links that this process has opened and that are open, in no order.
func (m *Manager) Links() []LinkReport {
	var out []LinkReport
	for _, ch := range m.Channels() {
		if id := ch.link.number; id != 0 {
			out = append(out, LinkReport{ID: id, Step: LinkOpened, Relay: ch.Peer().RSA})
		}
	}
	return out
}
