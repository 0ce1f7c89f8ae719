package onion

import (
	"errors"
	"fmt"
	"strings"

	ma "github.com/multiformats/go-multiaddr"

	"github.com/chivenet/chive"
)

// The kinds of errors of this package. Errors of the Tor network are Chive's kinds, such as
// chive.ErrOnionNoDescriptor: errors.Is finds them in what libp2p returns, too.
var (
	// ErrAddress: a multiaddress is not /onion3/ADDRESS:PORT and nothing else.
	ErrAddress = errors.New("it is not /onion3/ADDRESS:PORT")
	// ErrConfig: a configuration cannot be used, or would open another way out.
	ErrConfig = errors.New("this configuration cannot be used")
)

// ListenAddr returns the multiaddress of the onion service that has a key, at a virtual
// port from 1 to 65535: what libp2p.ListenAddrs takes, and what peers dial.
func ListenAddr(key chive.OnionKey, port int) (ma.Multiaddr, error) {
	if key.IsZero() {
		return nil, fmt.Errorf("onion: there is no key: %w", ErrConfig)
	}
	if port < 1 || port > 65535 {
		return nil, fmt.Errorf("onion: port %d is not from 1 to 65535: %w", port, ErrConfig)
	}
	return ma.NewMultiaddr(fmt.Sprintf("/onion3/%s:%d", strings.TrimSuffix(key.Address(), ".onion"), port))
}

// onion3 reports whether a multiaddress has one part, and this is an onion.
func onion3(addr ma.Multiaddr) bool {
	return len(addr) == 1 && addr[0].Code() == ma.P_ONION3
}

// hostPort returns the onion and the port of a multiaddress as a client dials them. Whether
// the onion's checksum is right, the client says.
func hostPort(addr ma.Multiaddr) (string, error) {
	switch {
	case len(addr) == 0:
		return "", fmt.Errorf("onion: the address is empty: %w", ErrAddress)
	case addr[0].Code() == ma.P_ONION:
		return "", fmt.Errorf("onion: the address is of version 2, which Tor no longer has: %w", ErrAddress)
	case addr[0].Code() != ma.P_ONION3:
		return "", fmt.Errorf("onion: the address begins with /%s: %w", addr[0].Protocol().Name, ErrAddress)
	case len(addr) > 1:
		return "", fmt.Errorf("onion: /%s follows the onion: %w", addr[1].Protocol().Name, ErrAddress)
	}
	host, port, ok := strings.Cut(addr[0].Value(), ":")
	if !ok || port == "0" {
		return "", fmt.Errorf("onion: the address has no port: %w", ErrAddress)
	}
	return host + ".onion:" + port, nil
}

// unknown stands where an address must be and nobody knows it: what an onion service knows
// of its client, and what a client has of its own. Nobody can dial it, as its checksum is
// wrong, and it has no IP address by which libp2p could count or tell it.
var unknown = ma.StringCast("/onion3/" + strings.Repeat("a", 56) + ":1")
