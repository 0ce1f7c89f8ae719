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
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
)

// fetchConsensus fetches the ns consensus, or a diff to it.
func (m *Mirror) fetchConsensus(ctx context.Context) error {
	var prefixes []string
	for _, id := range m.Client.cfg.Network.V3Idents() {
		prefixes = append(prefixes, id.String()[:6])
	}
	slices.Sort(prefixes)
	r := &request{path: "/tor/status-vote/current/consensus/" + strings.Join(prefixes, "+") + ".z", limit: consensusLimit}
	if m.current != nil {
		r.diff = strings.ToUpper(hex.EncodeToString(m.current.SHA3Signed[:]))
	}
	return m.Client.race(ctx, Query{Purpose: Consensus}, r, func(res *response) error {
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
		if err := m.take(text, m.Client.now()); err != nil {
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
		return fault.New(fault.Directory, "consensus: it is not newer than the present one")
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
	if s := m.Client.cfg.Shared; s != nil {
		s.VerifiedDescriptors(c.ValidAfter, m.wanted())
	}
	m.Store.KeepConsensus(text)
	return nil
}

// fetchDescriptors fetches descriptors, batch by batch, and their extra-info
// documents.
func (m *Mirror) fetchDescriptors(ctx context.Context, digests [][20]byte) error {
	if s := m.Client.cfg.Shared; s != nil {
		if digests = m.takeShared(s, digests); len(digests) == 0 {
			return nil
		}
		done, err := s.Turn(ctx)
		if err != nil {
			return err
		}
		defer done()
		digests = m.takeShared(s, digests)
	}
	var last error
	for batch := range slices.Chunk(digests, descBatch) {
		descs, err := m.fetchBatch(ctx, batch)
		if err == nil && len(descs) < len(batch) {
			err = fault.New(fault.Directory, "only %d of %d descriptors were received", len(descs), len(batch))
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

// takeShared keeps the descriptors that other mirrors of this process have, and returns the digests of the others.
func (m *Mirror) takeShared(s *netdir.Shared, digests [][20]byte) (left [][20]byte) {
	now := m.Client.now()
	for _, digest := range digests {
		if d := s.Descriptor(digest, now); d != nil {
			m.keep(d, nil)
		} else {
			left = append(left, digest)
		}
	}
	return left
}

// fetchOwed asks again for extra-info documents that were not received with
// their descriptors.
func (m *Mirror) fetchOwed(ctx context.Context) {
	wanted := m.wanted()
	var descs []*netdoc.RouterDesc
	for digest, o := range m.owed {
		if o.asked == extraTries || !wanted[digest] {
			delete(m.owed, digest)
			continue
		}
		o.asked++
		descs = append(descs, o.desc)
	}
	for batch := range slices.Chunk(descs, descBatch) {
		extras, err := m.fetchExtras(ctx, batch)
		if err != nil {
			m.Client.log.Debug("directory cache: extra-info documents", "err", err)
		}
		for _, d := range batch {
			if e := extras[d.ExtraInfo]; e != nil {
				m.keep(d, e)
			}
		}
		m.append(nil, extras)
	}
}

// fetchBatch fetches descriptors by their digests.
func (m *Mirror) fetchBatch(ctx context.Context, batch [][20]byte) (out []*netdoc.RouterDesc, err error) {
	want := make(map[[20]byte]bool, len(batch))
	for _, d := range batch {
		want[d] = true
	}
	r := &request{path: "/tor/server/d/" + joinDigests(batch) + ".z", limit: descLimit}
	err = m.Client.race(ctx, Query{Purpose: Descriptors}, r, func(res *response) error {
		if res.status != http.StatusOK {
			return statusError(res)
		}
		var bad error
		netdoc.ParseRouterDescs(res.body, m.Client.now(), func(d *netdoc.RouterDesc, err error) {
			if err != nil || !want[d.Digest] {
				bad = err // a descriptor with an expired certificate affects only that relay
				return
			}
			delete(want, d.Digest)
			if s := m.Client.cfg.Shared; s != nil {
				s.KeepDescriptor(d)
			}
			out = append(out, d)
		})
		if len(out) == 0 {
			return fault.New(fault.Directory, "no usable descriptor: %w", orNone(bad))
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
	r := &request{path: "/tor/extra/d/" + joinDigests(want) + ".z", limit: descLimit}
	err := m.Client.race(ctx, Query{Purpose: Descriptors}, r, func(res *response) error {
		if res.status != http.StatusOK {
			return statusError(res)
		}
		netdoc.ParseExtraInfos(res.body, m.Client.now(), func(e *netdoc.ExtraInfo, err error) {
			if err == nil && slices.Contains(want, e.Digest) {
				out[e.Digest] = e
			}
		})
		if len(out) == 0 { // another cache may have some
			return fault.New(fault.Directory, "none of the extra-info documents that were asked for")
		}
		return nil
	})
	return out, err
}

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
