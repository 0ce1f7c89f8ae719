package dirclient

import (
	"context"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
)

// MirrorStore receives the documents that a Mirror fetches, all verified. Its
// methods are called from one goroutine.
type MirrorStore interface {
	// Certs returns the authorities' certificates that are present.
	Certs() []*netdoc.AuthCert
	// KeepConsensus keeps an ns consensus, whose text must not be changed.
	KeepConsensus(text []byte)
	// HasDescriptor and HasExtraInfo report documents that need not be fetched.
	HasDescriptor(digest [20]byte) bool
	HasExtraInfo(digest [20]byte) bool
	// KeepDescriptor keeps a relay's descriptor, which the consensus names, with
	// its extra-info document, which may be nil.
	KeepDescriptor(d *netdoc.RouterDesc, e *netdoc.ExtraInfo)
	// Listed is called with the relays that the consensus names, after all documents
	// that could be fetched are kept.
	Listed(relays map[ident.RSAID]bool)
}

// Mirror fetches, for a directory cache, the documents that a Client does not fetch:
// the ns consensus, the router descriptors that it names and, if ExtraInfo is set,
// their extra-info documents. It asks the same caches as its Client, and follows the
// Client's consensus.
type Mirror struct {
	Client    *Client
	Store     MirrorStore
	ExtraInfo bool

	// owned by Run
	text    []byte // the newest ns consensus
	current *netdoc.Consensus
	owed    map[[20]byte]*owed // by the descriptor's digest
}

// owed is a descriptor that is kept, but whose extra-info document is missing.
type owed struct {
	desc  *netdoc.RouterDesc
	asked int // number of further requests
}

// extraTries is how often a document is asked for again: the documents of some
// relays cannot be found anywhere.
const extraTries = 4

// Files of a mirror, in the Client's cache.
const (
	nsFile    = "consensus-ns"
	descFile  = "descriptors"
	extraFile = "extra-infos"
)

const (
	descBatch = 92 // digests in a request, so that its line stays under 4096 bytes
	descLimit = 8 << 20
)

// Run mirrors documents until ctx is done.
func (m *Mirror) Run(ctx context.Context) {
	var retry backoff
	loaded := false
	for ctx.Err() == nil {
		changed := m.Client.Changed()
		wait := time.Duration(-1)
		if !loaded && m.Client.Directory() != nil { // then the certificates are present
			m.load()
			loaded = true
		}
		if m.behind() {
			if err := m.update(ctx); err != nil && ctx.Err() == nil {
				m.Client.log.Info("directory cache: some documents could not be fetched", "err", err)
				wait = retry.next()
			} else {
				retry.reset()
			}
		}
		m.sleep(ctx, changed, wait)
	}
}

// sleep waits for another consensus or, unless wait is negative, for a time.
func (m *Mirror) sleep(ctx context.Context, changed <-chan struct{}, wait time.Duration) {
	var timer <-chan time.Time
	if wait >= 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		timer, changed = t.C, nil
	}
	select {
	case <-ctx.Done():
	case <-changed:
	case <-timer:
	}
}

// behind reports whether the Client has a newer consensus than the mirror, or
// whether documents are missing.
func (m *Mirror) behind() bool {
	d := m.Client.Directory()
	if d == nil {
		return false
	}
	return m.current == nil || m.current.ValidAfter.Before(d.ValidAfter()) || len(m.missing()) > 0 || len(m.owed) > 0
}

// load reads the documents on the disk that are still valid.
func (m *Mirror) load() {
	s := &m.Client.store
	now := m.Client.now()
	text := s.read(nsFile)
	if text == nil {
		return
	}
	if err := m.take(text, now); err != nil {
		m.Client.log.Info("directory cache: the ns consensus on the disk cannot be used", "err", err)
		return
	}
	extras := map[[20]byte]*netdoc.ExtraInfo{}
	netdoc.ParseExtraInfos(s.read(extraFile), now, func(e *netdoc.ExtraInfo, err error) {
		if err == nil {
			extras[e.Digest] = e
		}
	})
	want := m.wanted()
	netdoc.ParseRouterDescs(s.read(descFile), now, func(d *netdoc.RouterDesc, err error) {
		if err == nil && want[d.Digest] {
			m.keep(d, extras[d.ExtraInfo])
		}
	})
}

func (m *Mirror) keep(d *netdoc.RouterDesc, e *netdoc.ExtraInfo) {
	if e != nil && !e.Belongs(d) {
		e = nil
	}
	m.Store.KeepDescriptor(d, e)
	switch {
	case !m.ExtraInfo || !d.HasExtraInfo || m.Store.HasExtraInfo(d.ExtraInfo):
		delete(m.owed, d.Digest)
	case m.owed[d.Digest] == nil:
		if m.owed == nil {
			m.owed = map[[20]byte]*owed{}
		}
		m.owed[d.Digest] = &owed{desc: d}
	}
}

// wanted returns the digests of the descriptors that the consensus names.
func (m *Mirror) wanted() map[[20]byte]bool {
	out := make(map[[20]byte]bool, len(m.current.Routers))
	for i := range m.current.Routers {
		out[m.current.Routers[i].Descriptor] = true
	}
	return out
}

// missing returns the wanted digests whose descriptors are not kept.
func (m *Mirror) missing() [][20]byte {
	var out [][20]byte
	if m.current != nil {
		for i := range m.current.Routers {
			if d := m.current.Routers[i].Descriptor; !m.Store.HasDescriptor(d) {
				out = append(out, d)
			}
		}
	}
	return out
}

// update fetches missing documents.
func (m *Mirror) update(ctx context.Context) error {
	if d := m.Client.Directory(); m.current == nil || m.current.ValidAfter.Before(d.ValidAfter()) {
		if err := m.fetchConsensus(ctx); err != nil {
			return err
		}
	}
	m.fetchOwed(ctx)
	err := m.fetchDescriptors(ctx, m.missing())
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if n := len(m.owed); n > 0 && err == nil {
		err = fault.New(fault.Directory, "%d extra-info documents were not received", n)
	}
	listed := make(map[ident.RSAID]bool, len(m.current.Routers))
	for i := range m.current.Routers {
		listed[m.current.Routers[i].RSA] = true
	}
	m.Store.Listed(listed)
	return err
}

// append adds documents to the files, and starts a file anew if most of its content
// is old.
func (m *Mirror) append(descs []*netdoc.RouterDesc, extras map[[20]byte]*netdoc.ExtraInfo) {
	var text, extra []byte
	for _, d := range descs {
		text = append(text, d.Text...)
	}
	for _, e := range extras {
		extra = append(extra, e.Text...)
	}
	bound := int64(len(m.current.Routers)) * meanDescriptor * 3
	m.Client.store.appendBounded(descFile, text, bound)
	m.Client.store.appendBounded(extraFile, extra, bound)
}

// meanDescriptor is the approximate size of a descriptor, in bytes.
const meanDescriptor = 2500
