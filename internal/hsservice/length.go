package hsservice

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"sort"
	"time"

	"github.com/chivenet/chive/internal/cert"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hspow"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/protover"
)

// innerOf returns what a descriptor tells clients. inc is the SENDME increment; zero:
// no congestion control, and then no CGO either.
func innerOf(points []netdoc.HSIntroPoint, inc int, cgo, single bool, kem []byte, pow *netdoc.HSPoW) (*netdoc.HSInner, error) {
	inner := &netdoc.HSInner{PoW: pow, Points: points, SendmeInc: uint8(inc), Single: single, HalfClose: true, KEM: kem}
	if inc == 0 {
		return inner, nil
	}
	inner.CGO = cgo
	var err error
	inner.FlowControl, err = protover.Parse("FlowCtrl=1-2")
	return inner, err
}

var errTooLong = fault.New(fault.Config, "the descriptor is longer than directories take")

// encode makes a descriptor of at most most bytes, or returns errTooLong.
func encode(keys *netdoc.HSKeys, revision uint64, inner *netdoc.HSInner, now time.Time, most int) (*netdoc.HSDescriptor, error) {
	d, err := netdoc.EncodeHSDescriptor(rand.Reader, keys, revision, inner, now)
	switch {
	case fault.Is(err, fault.Resource), err == nil && len(d.Text) > most:
		return nil, errTooLong
	case err != nil:
		return nil, err
	}
	return d, nil
}

// CheckLength refuses numbers of introduction points and clients whose descriptor no
// directory takes, before anything is uploaded.
func CheckLength(points, clients int) error {
	err := fits(points, clients, netdoc.MaxHSDescriptor)
	if errors.Is(err, errTooLong) {
		return tooLong(netdoc.MaxHSDescriptor, points, clients)
	}
	return err
}

// tooLong says what to lessen.
func tooLong(most, points, clients int) error {
	fewer := sort.Search(clients, func(n int) bool { return fits(points, n+1, most) != nil })
	less := sort.Search(points, func(n int) bool { return fits(n+1, clients, most) != nil })
	var try string
	switch {
	case less > 0 && fewer > 0:
		try = fmt.Sprintf("; with as many clients at most %d introduction points are possible, with as many introduction points at most %d clients", less, fewer)
	case fewer > 0:
		try = fmt.Sprintf("; with as many introduction points at most %d clients are possible", fewer)
	}
	return fault.New(fault.Config, "onion service: with %d introduction points and %d authorized clients its descriptor has more than the %d bytes that directories take%s", points, clients, most, try)
}

// fits returns errTooLong if a descriptor would be too long: it makes one, with other
// keys, of introduction points with an IPv6 address.
func fits(points, clients, most int) error {
	k, err := NewKey()
	if err != nil {
		return err
	}
	p, err := newPoint(time.Time{}, nil)
	if err != nil {
		return err
	}
	t := linkspec.Target{RelayID: ident.RelayID{RSA: ident.RSAID{1}, Ed: k.ID()},
		Addrs: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:443"), netip.MustParseAddrPort("[2001:db8::1]:443")}}
	one := netdoc.HSIntroPoint{Specs: t.Specs(), Onion: p.enc.Public(), Auth: cert.IdentityOf(p.auth), Enc: p.enc.Public()}
	all := make([]netdoc.HSIntroPoint, points)
	for i := range all {
		all[i] = one
	}
	keys := netdoc.HSKeys{Blinded: k.secret, Clients: make([]ident.X25519Key, clients)}
	for i := range keys.Clients {
		keys.Clients[i] = p.enc.Public()
	}
	inner, err := innerOf(all, 254, true, true, make([]byte, netdoc.HSKEMLen), &netdoc.HSPoW{Effort: hspow.MaxSuggested})
	if err != nil {
		return err
	}
	_, err = encode(&keys, 1<<63, inner, time.Now(), most)
	return err
}
