package authority

import (
	"bytes"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"time"
	"unicode/utf8"

	"golang.org/x/time/rate"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/netdoc"
)

// AcceptConfig says which relays the authority accepts.
type AcceptConfig struct {
	AllowPrivateAddresses bool       // of relays
	List                  *RelayList // the operator's list; may be nil
	ApprovedOnly          bool       // take no relay that List does not approve of
	// AssumeReachable counts every relay as running without a test.
	AssumeReachable bool
	IPv6            bool // this authority can reach IPv6 addresses, and votes on them
	MaxRelays       int  // default 20,000
}

func (c *AcceptConfig) setDefaults() {
	if c.MaxRelays == 0 {
		c.MaxRelays = 20000
	}
}

// Limits on descriptors, as C tor's.
const (
	maxDescriptorSize = 20000
	maxExtraInfoSize  = 50000
	maxSkew           = 12 * time.Hour // of a descriptor's time into the future
	maxAge            = 24 * time.Hour // of a descriptor that is voted on
)

// relay is a relay that the authority knows.
type relay struct {
	desc  *netdoc.RouterDesc
	extra *netdoc.ExtraInfo // the one that desc names; nil if it has not come
	made  *made             // nil before the first vote on desc
	since time.Time         // when a descriptor with these ports first came

	from            netip.Addr   // the address that uploaded desc; not valid: unknown
	source, network netip.Prefix // of from, or of the relay's own address
	replace         *rate.Limiter

	// The test results of its ORPorts. Descriptors with the same ports share
	// them.
	probes  *[families]probe
	counted *counted // in the census of strangers; nil if it is not
}

// upload handles a POST of descriptors and extra-info documents. It returns the
// status and the reason of the answer.
func (a *Authority) upload(from netip.Addr, body []byte) (status int, words string) {
	if !utf8.Valid(body) {
		return 400, "descriptor(s) or extrainfo(s) not valid UTF-8"
	}
	now := a.cfg.Now()
	descs, extraDocs := splitUpload(body)
	if len(descs)+len(extraDocs) > maxDocsUpload {
		return 400, "Too many documents in your POST."
	}
	var extras []*netdoc.ExtraInfo
	status, words = 200, ""
	refuse := func(err error) {
		status, words = 400, "Rejected: "+oneLine(err)
		if errors.Is(err, errLater) {
			status = 503
		}
		a.grumble.say(slog.LevelInfo, "descriptor refused", err)
	}
	n := len(descs)
	for _, doc := range extraDocs {
		if len(doc) > maxExtraInfoSize {
			refuse(fault.New(fault.Resource, "the extra-info document has %d bytes, over %d", len(doc), maxExtraInfoSize))
			continue
		}
		e, err := netdoc.ParseExtraInfo(doc, now)
		if err != nil {
			refuse(err)
			continue
		}
		extras = append(extras, e)
	}
	for _, doc := range descs {
		if !a.mayUpload(from, now) {
			refuse(fault.New(fault.Resource, "too many descriptors come from your address: %w", errLater))
			break
		}
		if len(doc) > maxDescriptorSize {
			refuse(fault.New(fault.Resource, "the descriptor has %d bytes, over %d", len(doc), maxDescriptorSize))
			continue
		}
		d, err := netdoc.JudgeRouterDesc(doc, now, func(d *netdoc.RouterDesc) error { return a.expect(d, now) })
		if err == nil {
			err = a.addDescriptor(d, extras, from, now)
		}
		if err != nil && !errors.Is(err, errKnown) {
			refuse(err)
		}
	}
	for _, e := range extras {
		n++
		a.addExtraInfo(e)
	}
	switch {
	case n == 0:
		return 400, "No descriptors found in your POST."
	case words == "":
		words = "Descriptor accepted"
	}
	return status, words
}

// maxDescriptorUpload bounds the size of a POST of descriptors: twice one relay's
// descriptor and extra-info document.
const maxDescriptorUpload = 2 * (maxDescriptorSize + maxExtraInfoSize)

// maxSignatures bounds a set of detached signatures. It is enough for about a
// hundred authorities. Some sets must wait before they can be checked.
const maxSignatures = 256 << 10

// maxDocsUpload bounds the documents of one upload, because the signatures of
// each must be checked.
const maxDocsUpload = 8

// uploadLimit returns the largest upload to a path; votes are large.
func uploadLimit(path string) int {
	switch path {
	case "/tor/":
		return maxDescriptorUpload
	case "/tor/post/vote":
		return maxUpload
	case "/tor/post/consensus-signature":
		return maxSignatures
	}
	return 0
}

// splitUpload divides the body of a POST into descriptors and extra-info
// documents, which come in any order.
func splitUpload(body []byte) (descs, extras [][]byte) {
	start, extra := -1, false
	end := func(at int) {
		switch {
		case start < 0:
		case extra:
			extras = append(extras, body[start:at])
		default:
			descs = append(descs, body[start:at])
		}
	}
	for off := 0; off < len(body); {
		line := body[off:]
		if i := bytes.IndexByte(line, '\n'); i >= 0 {
			line = line[:i+1]
		}
		if r, e := bytes.HasPrefix(line, []byte("router ")), bytes.HasPrefix(line, []byte("extra-info ")); r || e {
			end(off)
			start, extra = off, e
		}
		off += len(line)
	}
	end(len(body))
	return descs, extras
}

// errKnown reports a descriptor that the authority has already.
var errKnown = fault.New(fault.Refused, "the descriptor is known")

// expect checks the contents of a descriptor before its signatures are checked,
// because the signatures cost most.
func (a *Authority) expect(d *netdoc.RouterDesc, now time.Time) error {
	if err := a.judge(d, now); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.expectLocked(d)
}

func (a *Authority) expectLocked(d *netdoc.RouterDesc) error {
	if err := a.checkPairLocked(d); err != nil {
		return err
	}
	old := a.relays.byRSA[d.RSA]
	switch {
	case old == nil:
	case old.desc.Digest == d.Digest:
		return errKnown
	case !d.Published.After(old.desc.Published):
		return fault.New(fault.Refused, "there is a newer descriptor")
	}
	return nil
}

// addDescriptor adds a descriptor whose signatures were checked.
func (a *Authority) addDescriptor(d *netdoc.RouterDesc, extras []*netdoc.ExtraInfo, from netip.Addr, now time.Time) error {
	if err := a.judge(d, now); err != nil {
		return err
	}
	var extra *netdoc.ExtraInfo
	if i := slices.IndexFunc(extras, func(e *netdoc.ExtraInfo) bool { return e.Belongs(d) }); i >= 0 {
		extra = extras[i]
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.expectLocked(d); err != nil {
		return err
	}
	old := a.relays.byRSA[d.RSA]
	if old != nil && !a.cfg.Accept.AllowPrivateAddresses && !old.replace.AllowN(now, 1) {
		return fault.New(fault.Resource, "this relay's descriptors come too often: %w", errLater)
	}
	r := newRelay(d, from, now)
	r.extra = extra
	if old != nil {
		r.replace = old.replace
		if old.desc.Ed == d.Ed && samePorts(old.desc, d) {
			r.probes, r.since = old.probes, old.since
		}
	}
	if err := a.admitLocked(r, old, now); err != nil {
		return err
	}
	if old != nil && !a.knownLocked(old, now) {
		a.removeLocked(old) // no consensus names the previous descriptor
	}
	if err := a.docs.AddDescriptor(d, extra); err != nil {
		return err
	}
	a.relays.put(r)
	if !a.knownLocked(r, now) {
		a.relays.strangers.add(r)
	}
	if a.cfg.Accept.AssumeReachable { // no test will prove its identities
		a.pinLocked(d)
	}
	a.noteChangeLocked()
	return nil
}

// samePorts reports whether test results of a's ORPorts are valid for b.
func samePorts(a, b *netdoc.RouterDesc) bool {
	return a.Addr == b.Addr && a.ORPort == b.ORPort && slices.Equal(a.ORAddrs, b.ORAddrs)
}

// judge reports why a descriptor is not acceptable, without regard to what is
// known of the relay.
func (a *Authority) judge(d *netdoc.RouterDesc, now time.Time) error {
	status := a.list.Load().status(d)
	switch {
	case len(d.Text) > maxDescriptorSize:
		return fault.New(fault.Resource, "the descriptor has %d bytes, over %d", len(d.Text), maxDescriptorSize)
	case status.has(statusReject):
		return fault.New(fault.Refused, "the relay is marked rejected")
	case a.cfg.Accept.ApprovedOnly && !status.has(statusApproved):
		return fault.New(fault.Refused, "the relay is not approved")
	case d.Published.After(now.Add(maxSkew)):
		return fault.New(fault.Refused, "your clock is set too far in the future, or your timezone is not correct")
	case d.Published.Before(now.Add(-maxAge)):
		return fault.New(fault.Refused, "the descriptor is expired, or your clock is too far in the past")
	case d.OnionKey == nil && a.newestMethod() < netdoc.NoTAPMethod:
		return fault.New(fault.Refused, "missing TAP key in descriptor, which consensus methods up to %d need", a.newestMethod())
	case d.ORPort == 0:
		return fault.New(fault.Refused, "no ORPort")
	}
	if err := checkPlatform(d.Platform); err != nil {
		return err
	}
	if a.cfg.Accept.AllowPrivateAddresses {
		return nil
	}
	addrs := []netip.Addr{d.Addr}
	for _, o := range d.ORAddrs {
		addrs = append(addrs, o.Addr())
	}
	for _, addr := range addrs {
		if !netaddr.Public(addr) {
			return fault.New(fault.Refused, "a private address")
		}
	}
	return nil
}

// addExtraInfo adds an extra-info document that came after its descriptor.
func (a *Authority) addExtraInfo(e *netdoc.ExtraInfo) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.relays.byRSA[e.RSA]
	if r == nil || r.extra != nil || !e.Belongs(r.desc) {
		return
	}
	if err := a.docs.AddDescriptor(r.desc, e); err != nil {
		a.log.Warn("extra-info document not kept", "err", err)
		return
	}
	r.extra = e
	if r.counted != nil {
		a.relays.strangers.remove(r)
		a.relays.strangers.add(r) // it is larger
	}
}

// expired reports whether a descriptor is too old to be voted on, or one of its
// certificates has expired since it came.
func expired(d *netdoc.RouterDesc, now time.Time) bool {
	return d.Published.Before(now.Add(-maxAge)) || !d.CertExpires.IsZero() && now.After(d.CertExpires)
}

// dropOldLocked forgets relays whose descriptors are too old. The caller holds mu.
func (a *Authority) dropOldLocked(now time.Time) {
	for _, r := range a.relays.byRSA {
		if r.desc.Published.Before(now.Add(-2 * maxAge)) {
			a.removeLocked(r)
		}
	}
}

// mayUpload reports whether the authority checks another descriptor from an
// address.
func (a *Authority) mayUpload(from netip.Addr, now time.Time) bool {
	if a.cfg.Accept.AllowPrivateAddresses || !from.IsValid() {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.uploaders.take(from, now)
}

// relayIDs returns the relay identities of the authorities.
func (a *Authority) relayIDs() map[ident.RSAID]bool {
	out := map[ident.RSAID]bool{}
	for _, x := range a.cfg.Network.Authorities {
		out[x.RSA] = true
	}
	return out
}
