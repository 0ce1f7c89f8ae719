package dirserver

import (
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
)

// Documents is what a server serves. What it returns is not changed.
type Documents interface {
	// Consensus returns the consensus of a flavor, or nil.
	Consensus(netdoc.Flavor) *Consensus
	// Earlier returns an earlier consensus by its SHA3Signed digest, or nil.
	Earlier(netdoc.Flavor, [32]byte) *Earlier
	// Certs returns the authorities' certificates.
	Certs() []*netdoc.AuthCert
	// Microdesc returns a microdescriptor by its digest, or nil.
	Microdesc([32]byte) *Doc
	// Descriptor and DescriptorOf return a router descriptor by digest, and the
	// newest of a relay; Descriptors returns the newest of every relay.
	Descriptor([20]byte) *Doc
	DescriptorOf(ident.RSAID) *Doc
	Descriptors() []*Doc
	// ExtraInfo, ExtraInfoOf and ExtraInfos do the same for extra-info documents.
	ExtraInfo([20]byte) *Doc
	ExtraInfoOf(ident.RSAID) *Doc
	ExtraInfos() []*Doc
}

// Consensus is a consensus to serve.
type Consensus struct {
	Flavor netdoc.Flavor
	netdoc.Lifetime
	Signers []ident.RSAID
	SHA3    [32]byte // of the signed part
	Doc     *Doc
	relays  map[netip.Addr]bool // the addresses of those that it lists
	begins  beginLimits
}

// NewConsensus reads a consensus, whose signatures the caller has checked.
func NewConsensus(text []byte) (*Consensus, error) {
	relays := map[netip.Addr]bool{}
	c, err := netdoc.ParseConsensus(text, nil, func(rs *netdoc.RouterStatus) error {
		relays[rs.Addr] = true
		for _, a := range rs.ORAddrs {
			relays[a.Addr()] = true
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := &Consensus{Flavor: c.Flavor, Lifetime: c.Lifetime, SHA3: c.SHA3Signed, Doc: hourDoc(text), relays: relays, begins: beginLimitsOf(c.Params)}
	for _, s := range c.Signatures {
		if !slices.Contains(out.Signers, s.Identity) {
			out.Signers = append(out.Signers, s.Identity)
		}
	}
	return out, nil
}

// Bounds of Memory.
const (
	maxDescriptors = 65536
	maxMicrodescs  = 4 * maxDescriptors // the ones that recent consensuses name
)

// ErrFull reports that there is no room for another document.
var ErrFull = fault.New(fault.Resource, "directory: too many documents")

// Memory is a set of Documents in memory. The zero value is empty and ready;
// its methods may be called from any goroutine.
type Memory struct {
	history history

	mu       sync.RWMutex // guards what follows
	current  [2]*Consensus
	certs    []*netdoc.AuthCert
	micro    map[[32]byte]*Doc
	desc     map[[20]byte]*Doc
	descOf   map[ident.RSAID][20]byte
	extra    map[[20]byte]*Doc
	extraOf  map[ident.RSAID][20]byte
	prevDesc map[ident.RSAID][2][20]byte // descriptor and extra-info before the newest
	all      [2][]*Doc                   // all newest descriptors, and extra-infos, as they were asked for; nil: they have changed
}

var _ Documents = (*Memory)(nil)

// KeepIn has consensuses kept in files of a folder, so that diffs from them can be made after a restart, too. It takes over
// those that are there. Call it before anything else. Without it, or after an
// error, they are kept in memory.
func (m *Memory) KeepIn(dir string, log *slog.Logger) error { return m.history.open(dir, log) }

// SetConsensus replaces a flavor's consensus; the one before is kept to make
// diffs from.
func (m *Memory) SetConsensus(c *Consensus) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if old := m.current[c.Flavor]; old != nil && old.SHA3 != c.SHA3 {
		m.history.was(old)
	}
	m.current[c.Flavor] = c
}

// Keep keeps a consensus for diffs that will lead from it, after SetConsensus. It compresses and writes, which takes a
// part of a second: call it without a lock. Without this call, or after an error, the text stays in memory once
// another consensus has come.
func (m *Memory) Keep(c *Consensus) error { return m.history.keep(c) }

// Consensus implements Documents.
func (m *Memory) Consensus(f netdoc.Flavor) *Consensus {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.current[f]
}

// Earlier implements Documents.
func (m *Memory) Earlier(f netdoc.Flavor, sha3 [32]byte) *Earlier { return m.history.find(f, sha3) }

// SetCerts replaces the authorities' certificates.
func (m *Memory) SetCerts(certs []*netdoc.AuthCert) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.certs = slices.Clone(certs)
}

// Certs implements Documents.
func (m *Memory) Certs() []*netdoc.AuthCert {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.certs
}

// AddMicrodesc adds a microdescriptor.
func (m *Memory) AddMicrodesc(digest [32]byte, text []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return put(&m.micro, digest, text, maxMicrodescs)
}

// KeepMicrodescs drops the microdescriptors that keep does not want.
func (m *Memory) KeepMicrodescs(keep func([32]byte) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.micro, func(d [32]byte, _ *Doc) bool { return !keep(d) })
}

// Microdesc implements Documents.
func (m *Memory) Microdesc(d [32]byte) *Doc {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.micro[d]
}

// AddDescriptor makes d a relay's newest descriptor, with its extra-info
// document, which may be nil. The pair before stays to be had by digest, for
// those whose consensus names it; older ones are dropped.
func (m *Memory) AddDescriptor(d *netdoc.RouterDesc, e *netdoc.ExtraInfo) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = [2][]*Doc{}
	if err := put(&m.desc, d.Digest, d.Text, 2*maxDescriptors); err != nil {
		return err
	}
	var now [2][20]byte
	now[0] = d.Digest
	if e != nil {
		if err := put(&m.extra, e.Digest, e.Text, 2*maxDescriptors); err != nil {
			return err
		}
		now[1] = e.Digest
	}
	if last, ok := m.descOf[d.RSA]; ok && last != d.Digest {
		prev := m.prevDesc[d.RSA]
		if prev[0] != d.Digest {
			delete(m.desc, prev[0])
		}
		if prev[1] != now[1] {
			delete(m.extra, prev[1])
		}
		if m.prevDesc == nil {
			m.prevDesc = map[ident.RSAID][2][20]byte{}
		}
		m.prevDesc[d.RSA] = [2][20]byte{last, m.extraOf[d.RSA]}
	}
	if m.descOf == nil {
		m.descOf, m.extraOf = map[ident.RSAID][20]byte{}, map[ident.RSAID][20]byte{}
	}
	m.descOf[d.RSA] = d.Digest
	if e != nil {
		m.extraOf[d.RSA] = e.Digest
	}
	return nil
}

// RemoveRelay drops a relay's documents.
func (m *Memory) RemoveRelay(id ident.RSAID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = [2][]*Doc{}
	prev := m.prevDesc[id]
	for _, d := range [][20]byte{m.descOf[id], prev[0]} {
		delete(m.desc, d)
	}
	for _, d := range [][20]byte{m.extraOf[id], prev[1]} {
		delete(m.extra, d)
	}
	delete(m.descOf, id)
	delete(m.extraOf, id)
	delete(m.prevDesc, id)
}

// Descriptor implements Documents.
func (m *Memory) Descriptor(d [20]byte) *Doc {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.desc[d]
}

// DescriptorOf implements Documents.
func (m *Memory) DescriptorOf(id ident.RSAID) *Doc {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return of(m.desc, m.descOf, id)
}

// Descriptors implements Documents.
func (m *Memory) Descriptors() []*Doc {
	m.mu.Lock()
	defer m.mu.Unlock()
	return all(&m.all[0], m.desc, m.descOf)
}

// ExtraInfo implements Documents.
func (m *Memory) ExtraInfo(d [20]byte) *Doc {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.extra[d]
}

// ExtraInfoOf implements Documents.
func (m *Memory) ExtraInfoOf(id ident.RSAID) *Doc {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return of(m.extra, m.extraOf, id)
}

// ExtraInfos implements Documents.
func (m *Memory) ExtraInfos() []*Doc {
	m.mu.Lock()
	defer m.mu.Unlock()
	return all(&m.all[1], m.extra, m.extraOf)
}

// all returns every relay's newest document. The list is made once, whoever
// asks for it, and is not changed.
func all(list *[]*Doc, docs map[[20]byte]*Doc, newest map[ident.RSAID][20]byte) []*Doc {
	if *list == nil {
		out := make([]*Doc, 0, len(newest))
		for _, d := range newest {
			if doc := docs[d]; doc != nil {
				out = append(out, doc)
			}
		}
		*list = out
	}
	return *list
}

// of looks a relay's newest document up.
func of(docs map[[20]byte]*Doc, newest map[ident.RSAID][20]byte, id ident.RSAID) *Doc {
	d, ok := newest[id]
	if !ok {
		return nil
	}
	return docs[d]
}

func put[K comparable](m *map[K]*Doc, k K, text []byte, limit int) error {
	if (*m)[k] != nil {
		return nil // by its digest it is the same
	}
	if len(*m) >= limit {
		return ErrFull
	}
	if *m == nil {
		*m = map[K]*Doc{}
	}
	(*m)[k] = NewDoc(text)
	return nil
}
