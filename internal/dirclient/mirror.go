package dirclient

import (
	"bytes"
	"context"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
)

// MirrorStore gets what a Mirror fetches, all verified. Its methods are called
// from one goroutine.
type MirrorStore interface {
	// Certs returns the authorities' certificates that are at hand.
	Certs() []*netdoc.AuthCert
	// KeepConsensus keeps an ns consensus, whose text must not be changed.
	KeepConsensus(text []byte)
	// HasDescriptor and HasExtraInfo say what need not be fetched.
	HasDescriptor(digest [20]byte) bool
	HasExtraInfo(digest [20]byte) bool
	// KeepDescriptor keeps a relay's descriptor, which the consensus names, with
	// its extra-info document, which may be nil.
	KeepDescriptor(d *netdoc.RouterDesc, e *netdoc.ExtraInfo)
	// Listed is told, when all that could be had is kept, which relays the
	// consensus names.
	Listed(relays map[ident.RSAID]bool)
}

// Mirror fetches, for a directory cache, what the caches of microdescriptors
// lack: the ns consensus, the router descriptors that it names and, if
// ExtraInfo is set, their extra-info documents. It asks whom its Client asks, and
// follows the Client's consensus.
type Mirror struct {
	Client    *Client
	Store     MirrorStore
	ExtraInfo bool

	// owned by Run
	text    []byte // the newest ns consensus
	current *netdoc.Consensus
}

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

// Run mirrors until ctx is done.
func (m *Mirror) Run(ctx context.Context) {
	var retry backoff
	loaded := false
	for ctx.Err() == nil {
		changed := m.Client.Changed()
		wait := time.Duration(-1)
		if !loaded && m.Client.Directory() != nil { // its certificates are here
			m.load()
			loaded = true
		}
		if m.behind() {
			if err := m.update(ctx); err != nil && ctx.Err() == nil {
				m.Client.log.Info("directory cache: not all documents could be had", "err", err)
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
// documents are missing.
func (m *Mirror) behind() bool {
	d := m.Client.Directory()
	if d == nil {
		return false
	}
	return m.current == nil || m.current.ValidAfter.Before(d.ValidAfter()) || len(m.missing()) > 0
}

// load takes what is on the disk, as far as it is still good.
func (m *Mirror) load() {
	s := &m.Client.store
	now := time.Now()
	text := s.read(nsFile)
	if text == nil {
		return
	}
	if err := m.take(text, now); err != nil {
		m.Client.log.Info("directory cache: the ns consensus on the disk is not used", "err", err)
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
}

// wanted are the digests of the descriptors that the consensus names.
func (m *Mirror) wanted() map[[20]byte]bool {
	out := make(map[[20]byte]bool, len(m.current.Routers))
	for i := range m.current.Routers {
		out[m.current.Routers[i].Descriptor] = true
	}
	return out
}

// missing are those that are not kept.
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

// update fetches what is missing.
func (m *Mirror) update(ctx context.Context) error {
	if d := m.Client.Directory(); m.current == nil || m.current.ValidAfter.Before(d.ValidAfter()) {
		if err := m.fetchConsensus(ctx); err != nil {
			return err
		}
	}
	missing := m.missing()
	err := m.fetchDescriptors(ctx, missing)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	listed := make(map[ident.RSAID]bool, len(m.current.Routers))
	for i := range m.current.Routers {
		listed[m.current.Routers[i].RSA] = true
	}
	m.Store.Listed(listed)
	return err
}

// fetchConsensus fetches the ns consensus, or what has changed in it.
func (m *Mirror) fetchConsensus(ctx context.Context) error {
	var prefixes []string
	for _, id := range m.Client.cfg.Network.V3Idents() {
		prefixes = append(prefixes, id.String()[:6])
	}
	slices.Sort(prefixes)
	r := &request{path: "/tor/status-vote/current/consensus/" + strings.Join(prefixes, "+"), limit: consensusLimit}
	if m.current != nil {
		r.diff = strings.ToUpper(hex.EncodeToString(m.current.SHA3Signed[:]))
	}
	return m.Client.race(ctx, Consensus, r, func(res *response) error {
		if res.status != http.StatusOK {
			return statusError(res)
		}
		text := bytes.Clone(res.body)
		if netdoc.IsDiff(text) {
			var err error
			if text, err = netdoc.ApplyDiff(m.text, text); err != nil {
				return err
			}
		}
		if err := m.take(text, time.Now()); err != nil {
			return err
		}
		m.Client.store.write(nsFile, text)
		return nil
	})
}

// take verifies an ns consensus and keeps it.
func (m *Mirror) take(text []byte, now time.Time) error {
	c, err := netdoc.ParseConsensus(text, nil, nil)
	if err != nil {
		return err
	}
	if c.Flavor != netdoc.FlavorNS {
		return fault.New(fault.Directory, "consensus: flavor %v, not ns", c.Flavor)
	}
	if now.After(c.ValidUntil) {
		return fault.New(fault.Directory, "consensus: it was valid until %s", c.ValidUntil.Format(netdoc.TimeFormat))
	}
	if m.current != nil && !c.ValidAfter.After(m.current.ValidAfter) {
		return fault.New(fault.Directory, "consensus: it is not newer than the one at hand")
	}
	certs := map[netdoc.KeyPair]*netdoc.AuthCert{}
	for _, crt := range m.Store.Certs() {
		certs[crt.KeyPair()] = crt
	}
	v := c.Verify(m.Client.cfg.Network.V3Idents(), func(k netdoc.KeyPair) *netdoc.AuthCert { return certs[k] }, now)
	if err := v.Err(); err != nil {
		return err
	}
	m.text, m.current = text, c
	m.Store.KeepConsensus(text)
	return nil
}

// fetchDescriptors fetches descriptors, batch by batch, and what belongs to
// them.
func (m *Mirror) fetchDescriptors(ctx context.Context, digests [][20]byte) error {
	var last error
	for batch := range slices.Chunk(digests, descBatch) {
		descs, err := m.fetchBatch(ctx, batch)
		if err == nil && len(descs) < len(batch) {
			err = fault.New(fault.Directory, "%d of %d descriptors came", len(descs), len(batch))
		}
		extras := map[[20]byte]*netdoc.ExtraInfo{}
		if m.ExtraInfo && len(descs) > 0 {
			var extraErr error
			if extras, extraErr = m.fetchExtras(ctx, descs); extraErr != nil {
				m.Client.log.Debug("directory cache: extra-info documents", "err", extraErr)
			}
		}
		for _, d := range descs {
			m.keep(d, extras[d.ExtraInfo])
		}
		m.append(descs, extras)
		if err != nil {
			last = err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return last
}

// fetchBatch fetches descriptors by their digests, which name them whole.
func (m *Mirror) fetchBatch(ctx context.Context, batch [][20]byte) (out []*netdoc.RouterDesc, err error) {
	want := make(map[[20]byte]bool, len(batch))
	for _, d := range batch {
		want[d] = true
	}
	r := &request{path: "/tor/server/d/" + joinDigests(batch), limit: descLimit}
	err = m.Client.race(ctx, Descriptors, r, func(res *response) error {
		if res.status != http.StatusOK {
			return statusError(res)
		}
		var bad error
		netdoc.ParseRouterDescs(res.body, time.Now(), func(d *netdoc.RouterDesc, err error) {
			if err != nil || !want[d.Digest] {
				bad = err // a descriptor of which a certificate has expired costs that relay alone
				return
			}
			delete(want, d.Digest)
			out = append(out, d)
		})
		if len(out) == 0 {
			return fault.New(fault.Directory, "no descriptor of use: %w", orNone(bad))
		}
		return nil
	})
	return out, err
}

func (m *Mirror) fetchExtras(ctx context.Context, descs []*netdoc.RouterDesc) (map[[20]byte]*netdoc.ExtraInfo, error) {
	var want [][20]byte
	for _, d := range descs {
		if d.HasExtraInfo && !m.Store.HasExtraInfo(d.ExtraInfo) {
			want = append(want, d.ExtraInfo)
		}
	}
	out := map[[20]byte]*netdoc.ExtraInfo{}
	if len(want) == 0 {
		return out, nil
	}
	r := &request{path: "/tor/extra/d/" + joinDigests(want), limit: descLimit}
	err := m.Client.race(ctx, Descriptors, r, func(res *response) error {
		if res.status != http.StatusOK {
			return statusError(res)
		}
		netdoc.ParseExtraInfos(res.body, time.Now(), func(e *netdoc.ExtraInfo, err error) {
			if err == nil {
				out[e.Digest] = e
			}
		})
		return nil
	})
	return out, err
}

// append adds documents to the files, which are begun anew when most of what
// they hold is old.
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

// meanDescriptor is about the size of a descriptor, in bytes.
const meanDescriptor = 2500

func joinDigests(list [][20]byte) string {
	var s strings.Builder
	for i, d := range list {
		if i > 0 {
			s.WriteByte('+')
		}
		s.WriteString(strings.ToUpper(hex.EncodeToString(d[:])))
	}
	return s.String()
}
