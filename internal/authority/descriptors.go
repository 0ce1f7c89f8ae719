package authority

import (
	"context"
	"encoding/hex"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdoc"
)

// descriptorBatch is how many descriptors one request names, as C tor's.
const descriptorBatch = 96

// fetchDescriptors asks the other authorities for descriptors that they vote on and
// this one lacks, for its next vote. A relay uploads only when it has a new descriptor,
// up to 18 hours later: until then, an authority that was away, or is new, would vote
// against the relay.
func (a *Authority) fetchDescriptors(ctx context.Context, t timing) {
	a.toOthers(ctx, t.publish, func(ctx context.Context, p peer) {
		for batch := range slices.Chunk(a.lacking(p), descriptorBatch) {
			if err := a.fetchBatch(ctx, p, batch); err != nil {
				a.log.Info("descriptors not fetched", "authority", p.Nickname, "err", err)
				return
			}
		}
	})
}

// lacking returns the digests of the descriptors that an authority votes on and that
// this one lacks, if it would accept them. Those of relays that do not run are left
// out: strangers, who may not exist, are up to the authority to which they uploaded.
func (a *Authority) lacking(p peer) (out [][20]byte) {
	now := a.cfg.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	v := a.round.votes[p.V3Ident]
	if v == nil {
		return nil
	}
	entries := v.Entries(new(netdoc.Interner))
	for {
		rs, err := entries.Next()
		if err != nil {
			a.log.Error("vote cannot be read again", "authority", p.Nickname, "err", err)
			return nil
		}
		if rs == nil {
			break
		}
		r := a.relays.byRSA[rs.RSA]
		if r != nil && !rs.Published.After(r.desc.Published) || !rs.Flags.Has(netdoc.FlagRunning) || a.pins.check(rs.RSA, rs.Ed) != nil {
			continue
		}
		// What is known of it: the key is judged when it has come.
		d := &netdoc.RouterDesc{RSA: rs.RSA, Ed: rs.Ed, Addr: rs.Addr, ORPort: rs.ORPort, Published: rs.Published, OnionKey: []byte{}}
		if isVersion(rs.Version) { // a vote leaves out other parts of a platform, so its version may be empty
			d.Platform = rs.Version
		}
		if a.judge(d, now) == nil {
			out = append(out, rs.Descriptor)
		}
	}
	// All are asked at the same time: in the same order, each would send everything.
	rand.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// fetchBatch fetches descriptors, except those that another authority has sent
// meanwhile.
func (a *Authority) fetchBatch(ctx context.Context, p peer, batch [][20]byte) error {
	var words []string
	for _, d := range batch {
		if a.docs.Descriptor(d) == nil {
			words = append(words, strings.ToUpper(hex.EncodeToString(d[:])))
		}
	}
	if len(words) == 0 {
		return nil
	}
	body, err := p.get(ctx, "/tor/server/d/"+strings.Join(words, "+"), int64(len(words))*maxDescriptorSize)
	if err != nil {
		return err
	}
	now := a.cfg.Now()
	descs, _ := splitUpload(body)
	for _, doc := range descs[:min(len(descs), len(words))] {
		d, err := netdoc.JudgeRouterDesc(doc, now, func(d *netdoc.RouterDesc) error {
			if !slices.Contains(batch, d.Digest) { // a vote is signed, and this answer is not
				return fault.New(fault.Directory, "it was not asked for")
			}
			return a.expect(d, now)
		})
		if err == nil {
			err = a.addDescriptor(d, nil, netip.Addr{}, now)
		}
		if err != nil {
			a.log.Debug("fetched descriptor", "from", p.Nickname, "err", err)
		}
	}
	return nil
}
