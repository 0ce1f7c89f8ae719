package flood

import (
	"net/netip"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/protover"
)

// Peer is a relay or an authority, with all that a peer must know to connect to
// it.
type Peer struct {
	RSA   ident.RSAID     `json:"rsa"`
	Ed    ident.Ed25519ID `json:"ed"`
	Ntor  ident.X25519Key `json:"ntor"`  // zero: not known
	Proto string          `json:"proto"` // subprotocol versions
	OR    netip.AddrPort  `json:"or"`
	Dir   netip.AddrPort  `json:"dir"` // DirPort; invalid: none
}

// peerOf is the relay of a descriptor.
func peerOf(d *netdoc.RouterDesc) Peer {
	return Peer{RSA: d.RSA, Ed: d.Ed, Ntor: d.Ntor, Proto: d.Proto, OR: netip.AddrPortFrom(d.Addr, d.ORPort)}
}

func (p *Peer) target() (linkspec.Target, error) {
	proto, err := protover.Parse(p.Proto)
	return linkspec.Target{RelayID: ident.RelayID{RSA: p.RSA, Ed: p.Ed}, Addrs: []netip.AddrPort{p.OR}, Ntor: p.Ntor, Proto: proto}, err
}

// Order tells an attacker what to do.
type Order struct {
	Flood   string         `json:"flood"` // a name of the table
	Victim  Peer           `json:"victim"`
	Entry   Peer           `json:"entry"`   // a relay before the victim
	Exit    Peer           `json:"exit"`    // an exit after the victim
	Source  netip.AddrPort `json:"source"`  // a service that sends as much as it is asked for (internal/lab/target)
	Sources []netip.Addr   `json:"sources"` // addresses of loopback from which to connect
	Time    time.Duration  `json:"time_ns"` // the attack ends after this time
}

// check refuses addresses outside this machine: a bench attacks only loopback.
func (o *Order) check() error {
	if len(o.Sources) == 0 || o.Time <= 0 || o.Time > maxTime {
		return fault.New(fault.Config, "flood: an order needs addresses to come from, and a time of at most %v", maxTime)
	}
	addrs := append([]netip.Addr{o.Victim.OR.Addr()}, o.Sources...)
	for _, a := range []netip.AddrPort{o.Victim.Dir, o.Entry.OR, o.Exit.OR, o.Source} {
		if a.IsValid() {
			addrs = append(addrs, a.Addr())
		}
	}
	for _, a := range addrs {
		if !a.IsLoopback() {
			return fault.New(fault.Config, "flood: attacks go over loopback only")
		}
	}
	return nil
}

// maxTime bounds one attack.
const maxTime = 10 * time.Minute

// Counts says what an attacker did.
type Counts struct {
	Sent    int64  `json:"sent"`    // cells, requests, records or bytes: whatever the flood sends
	Opened  int64  `json:"opened"`  // connections
	Refused int64  `json:"refused"` // connections that could not be opened, circuits and streams that were refused
	Closed  int64  `json:"closed"`  // connections that the victim ended
	CPU     int64  `json:"cpu_ms"`
	Last    string `json:"last_error,omitempty"`
}
