package devp2p

import (
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"

	"github.com/ethereum/go-ethereum/p2p/enode"
	"github.com/ethereum/go-ethereum/p2p/enr"
	"github.com/ethereum/go-ethereum/rlp"

	"github.com/chivenet/chive"
)

// The two forms of an onion in a node record.
const (
	onionTextLen = 62 // 56 letters and digits, and ".onion"
	onionRawLen  = 35 // key, checksum and version: what the letters and digits encode
)

// ErrNoOnion says that a node has no onion: its record has no entry "onion3", and it
// has no host name below .onion.
var ErrNoOnion = errors.New("the node has no onion")

// Onion3 is the entry "onion3" of a node record: the address of the onion service at
// which the node is reached, 56 letters and digits and ".onion", in lower case. The
// port is the record's entry "tcp".
//
// It is written as the 35 bytes that the letters and digits encode, so that a record has room for
// more. It is also read as text, which gethrelay writes. An address with a wrong checksum, another version, or a key that is not
// a point of prime order is refused.
type Onion3 string

// ParseOnion3 reads an onion address: 56 letters and digits and ".onion". An error
// says what is wrong, without the address.
func ParseOnion3(text string) (Onion3, error) {
	if len(text) != onionTextLen {
		return "", fmt.Errorf("onion3: %d characters, not %d", len(text), onionTextLen)
	}
	if strings.IndexByte(text, '.') != onionTextLen-len(".onion") {
		return "", errors.New("onion3: it is not 56 letters and digits and .onion")
	}
	if _, err := chive.ParseOnionAddress(text); err != nil {
		return "", fmt.Errorf("onion3: %w", err)
	}
	return Onion3(strings.ToLower(text)), nil
}

// ENRKey implements enr.Entry.
func (Onion3) ENRKey() string { return "onion3" }

// Addr returns the address, with ".onion".
func (o Onion3) Addr() string { return string(o) }

// EncodeRLP implements rlp.Encoder: it writes the 35 bytes.
func (o Onion3) EncodeRLP(w io.Writer) error {
	checked, err := ParseOnion3(string(o))
	if err != nil {
		return err
	}
	raw, err := base32.StdEncoding.DecodeString(strings.ToUpper(strings.TrimSuffix(checked.Addr(), ".onion")))
	if err != nil {
		return fmt.Errorf("onion3: %w", err)
	}
	return rlp.Encode(w, raw)
}

// DecodeRLP implements rlp.Decoder: it reads the 35 bytes, or the text.
func (o *Onion3) DecodeRLP(s *rlp.Stream) error {
	kind, size, err := s.Kind()
	if err != nil {
		return err
	}
	if kind != rlp.String || size != onionTextLen && size != onionRawLen {
		return fmt.Errorf("onion3: it is neither a text of %d characters nor %d bytes", onionTextLen, onionRawLen)
	}
	b, err := s.Bytes()
	if err != nil {
		return err
	}
	text := string(b)
	if size == onionRawLen {
		text = strings.ToLower(base32.StdEncoding.EncodeToString(b)) + ".onion"
	}
	parsed, err := ParseOnion3(text)
	if err != nil {
		return err
	}
	*o = parsed
	return nil
}

// OnionOf returns a node's onion address and its virtual port. They are the entries
// "onion3" and "tcp" of its record; or, for a node without such an entry, the host name
// of its enode URL. ErrNoOnion: it has none. Other errors say what is malformed.
func OnionOf(n *enode.Node) (host string, port int, err error) {
	var onion Onion3
	err = n.Load(&onion)
	if enr.IsNotFound(err) {
		if !chive.IsOnionHost(n.Hostname()) {
			return "", 0, ErrNoOnion
		}
		onion, err = ParseOnion3(n.Hostname())
	}
	if err != nil {
		return "", 0, err
	}
	var tcp enr.TCP
	if err := n.Load(&tcp); err != nil || tcp == 0 {
		return "", 0, errors.New("onion3: the record has no port: its entry \"tcp\" is missing")
	}
	return onion.Addr(), int(tcp), nil
}

// onionAddr returns a node's onion and port in one text.
func onionAddr(n *enode.Node) (string, error) {
	host, port, err := OnionOf(n)
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(host, strconv.Itoa(port)), nil
}
