package relay

import (
	"time"

	"github.com/chivenet/chive/internal/dirclient"
	"github.com/chivenet/chive/internal/dirserver"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
)

// mirror is the part of a directory cache for clients that use router
// descriptors: the ns consensus, the descriptors that it names, and their
// extra-info documents if the configuration says so. It implements
// dirclient.MirrorStore.
type mirror struct {
	*dirCache
	seen map[ident.RSAID]time.Time // relays, and when a consensus last named them
}

var _ dirclient.MirrorStore = (*mirror)(nil)

// keepUnlisted is how long the descriptors of a relay are served after the last
// consensus that names it: clients may still have that consensus.
const keepUnlisted = 24 * time.Hour

// Certs implements dirclient.MirrorStore.
func (m *mirror) Certs() []*netdoc.AuthCert { return m.docs.Certs() }

// KeepConsensus implements dirclient.MirrorStore.
func (m *mirror) KeepConsensus(text []byte) {
	doc, err := dirserver.NewConsensus(text)
	if err != nil {
		m.log.Warn("directory: the ns consensus cannot be served", "err", err)
		return
	}
	m.current(doc)
}

// HasDescriptor implements dirclient.MirrorStore.
func (m *mirror) HasDescriptor(digest [20]byte) bool { return m.docs.Descriptor(digest) != nil }

// HasExtraInfo implements dirclient.MirrorStore.
func (m *mirror) HasExtraInfo(digest [20]byte) bool { return m.docs.ExtraInfo(digest) != nil }

// KeepDescriptor implements dirclient.MirrorStore.
func (m *mirror) KeepDescriptor(d *netdoc.RouterDesc, e *netdoc.ExtraInfo) {
	if err := m.docs.AddDescriptor(d, e); err != nil {
		m.log.Warn("directory: a descriptor cannot be served", "err", err)
		return
	}
	if _, ok := m.seen[d.RSA]; !ok {
		m.seen[d.RSA] = time.Now()
	}
}

// Listed implements dirclient.MirrorStore.
func (m *mirror) Listed(relays map[ident.RSAID]bool) {
	now := time.Now()
	for id, last := range m.seen {
		if relays[id] {
			m.seen[id] = now
		} else if now.Sub(last) > keepUnlisted {
			m.docs.RemoveRelay(id)
			delete(m.seen, id)
		}
	}
}
