package authority

import (
	"bufio"
	"bytes"
	"net/netip"
	"slices"
	"strings"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
)

// RelaySet is a list of relays: "*", fingerprints with or without "$",
// nicknames, and addresses or networks.
type RelaySet []string

// Has reports whether a relay belongs to the set.
func (s RelaySet) Has(d *netdoc.RouterDesc) bool {
	return slices.ContainsFunc(s, func(w string) bool {
		if w == "*" || w == d.Nickname || strings.EqualFold(strings.TrimPrefix(w, "$"), d.RSA.String()) {
			return true
		}
		if p, err := netip.ParsePrefix(w); err == nil {
			return p.Contains(d.Addr)
		}
		a, err := netip.ParseAddr(w)
		return err == nil && a == d.Addr
	})
}

// relayStatus is what the operator says about a relay.
type relayStatus uint16

const (
	statusReject relayStatus = 1 << iota
	statusInvalid
	statusBadExit
	statusMiddleOnly
	statusStripGuard
	statusStripHSDir
	statusStripV2Dir
	statusApproved
)

func (s relayStatus) has(w relayStatus) bool { return s&w != 0 }

var statusWords = map[string]relayStatus{
	"!reject": statusReject, "!invalid": statusInvalid, "!badexit": statusBadExit, "!middleonly": statusMiddleOnly,
	"!stripguard": statusStripGuard, "!striphsdir": statusStripHSDir, "!stripv2dir": statusStripV2Dir,
}

// RelayList is the operator's list of relays: C tor's approved-routers file.
type RelayList struct {
	rsa map[ident.RSAID]relayStatus
	ed  map[ident.Ed25519ID]relayStatus
	net []struct {
		net    netip.Prefix
		status relayStatus
	}
}

// maxRelayList bounds a list.
const maxRelayList = 1 << 20

// ParseRelayList reads lines with an action, "!reject", "!invalid", "!badexit",
// "!middleonly", "!stripguard", "!striphsdir" or "!stripv2dir", and the relays
// that it applies to: an RSA fingerprint, an Ed25519 identity in base64, or an
// IPv4 network. A line without an action, or with a nickname in its place,
// approves of the relay.
func ParseRelayList(text []byte) (*RelayList, error) {
	if len(text) > maxRelayList {
		return nil, fault.New(fault.Config, "relay list of %d bytes", len(text))
	}
	l := &RelayList{rsa: map[ident.RSAID]relayStatus{}, ed: map[ident.Ed25519ID]relayStatus{}}
	sc := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; sc.Scan(); n++ {
		line, _, _ := strings.Cut(sc.Text(), "#")
		w := strings.Fields(line)
		if len(w) == 0 {
			continue
		}
		status := statusApproved
		if strings.HasPrefix(w[0], "!") {
			var ok bool
			if status, ok = statusWords[strings.ToLower(w[0])]; !ok {
				return nil, fault.New(fault.Config, "relay list: line %d: %q is none of !reject, !invalid, !badexit, !middleonly, !stripguard, !striphsdir, !stripv2dir", n, w[0])
			}
			w = w[1:]
		}
		err := l.add(strings.Join(w, ""), status)
		if err != nil && status == statusApproved && len(w) > 1 { // with a nickname before the fingerprint
			err = l.add(strings.Join(w[1:], ""), status)
		}
		if err != nil {
			return nil, fault.New(fault.Config, "relay list: line %d: %w", n, err)
		}
	}
	return l, fault.Wrap(fault.Config, sc.Err())
}

func (l *RelayList) add(who string, status relayStatus) error {
	if id, err := ident.ParseRSAID(who); err == nil {
		l.rsa[id] |= status
		return nil
	}
	if id, err := ident.ParseEd25519ID(who); err == nil {
		l.ed[id] |= status
		return nil
	}
	if !strings.Contains(who, "/") {
		who += "/32"
	}
	p, err := netip.ParsePrefix(who)
	if err != nil {
		return fault.New(fault.Config, "%q is no fingerprint, Ed25519 identity or network", strings.TrimSuffix(who, "/32"))
	}
	l.net = append(l.net, struct {
		net    netip.Prefix
		status relayStatus
	}{p, status})
	return nil
}

// status returns what the list says about a relay. A nil list says nothing.
func (l *RelayList) status(d *netdoc.RouterDesc) relayStatus {
	if l == nil {
		return 0
	}
	s := l.rsa[d.RSA] | l.ed[d.Ed]
	for _, n := range l.net {
		if n.net.Contains(d.Addr) {
			s |= n.status
		}
	}
	return s
}
