package find

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/ethereum/go-ethereum/p2p/enode"
	"github.com/ethereum/go-ethereum/p2p/enr"

	"github.com/chivenet/chive/devp2p"
	"github.com/chivenet/chive/program"
)

// The bounds of a list.
const (
	maxLine  = 2048    // bytes
	maxBytes = 1 << 20 // of a file
	maxNodes = 4096
)

// Parse reads one node: a record "enr:...", or an enode URL whose host is an IP address or an
// onion. The record of an enode URL has no signature.
func Parse(text string) (*enode.Node, error) {
	if rest, ok := strings.CutPrefix(text, "enode://"); ok {
		return parseURL(rest)
	}
	n, err := enode.Parse(enode.ValidSchemes, text)
	if err != nil {
		return nil, fmt.Errorf("no valid node record: %w", err)
	}
	if _, _, err := devp2p.OnionOf(n); err != nil && !errors.Is(err, devp2p.ErrNoOnion) {
		return nil, err
	}
	return n, nil
}

// parseURL reads an enode URL after its "enode://". Package enode takes any host, but its
// nodes do not say that one is an onion.
func parseURL(rest string) (*enode.Node, error) {
	_, endpoint, ok := strings.Cut(rest, "@")
	if !ok {
		return nil, errors.New("an enode URL without host and port")
	}
	hostport, _, _ := strings.Cut(endpoint, "?")
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		return nil, fmt.Errorf("the end of the enode URL is not HOST:PORT")
	}
	n, err := enode.ParseV4("enode://" + rest)
	if err != nil {
		if e := (*url.Error)(nil); errors.As(err, &e) {
			err = e.Err // without the URL
		}
		return nil, fmt.Errorf("no valid enode URL: %w", err)
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return n, nil
	}
	if !strings.HasSuffix(strings.ToLower(host), ".onion") {
		return nil, errors.New("the host of the enode URL is a name: give its IP address or its onion, because no name is looked up here")
	}
	onion, err := devp2p.ParseOnion3(strings.ToLower(host))
	if err != nil {
		return nil, err
	}
	tcp, err := strconv.ParseUint(port, 10, 16)
	if err != nil || tcp == 0 {
		return nil, errors.New("the port of the enode URL is not from 1 to 65535")
	}
	var r enr.Record
	r.Set(onion)
	r.Set(enr.TCP(tcp))
	r.Set(enode.Secp256k1(*n.Pubkey()))
	return enode.SignNull(&r, n.ID()), nil
}

// List reads nodes, one a line. Empty lines, and what follows a "#", are ignored. An error
// names the line.
func List(r io.Reader) ([]*enode.Node, error) {
	var out []*enode.Node
	lines := bufio.NewScanner(io.LimitReader(r, maxBytes+1))
	lines.Buffer(make([]byte, 0, maxLine), maxLine)
	read := 0
	for i := 1; lines.Scan(); i++ {
		if read += len(lines.Bytes()) + 1; read > maxBytes {
			return nil, fmt.Errorf("line %d: the list has more than %d bytes", i, maxBytes)
		}
		text, _, _ := strings.Cut(lines.Text(), "#")
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		n, err := Parse(text)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i, err)
		}
		if len(out) == maxNodes {
			return nil, fmt.Errorf("line %d: the list has more than %d nodes", i, maxNodes)
		}
		out = append(out, n)
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fmt.Errorf("a line has more than %d bytes", maxLine)
	} else if err != nil {
		return nil, err
	}
	return out, nil
}

// Nodes reads the values of a flag: each is a node, or the path of a file with a list.
func Nodes(values []string) ([]*enode.Node, error) {
	var out []*enode.Node
	for _, v := range values {
		if strings.HasPrefix(v, "enr:") || strings.HasPrefix(v, "enode://") {
			n, err := Parse(v)
			if err != nil {
				return nil, err
			}
			out = append(out, n)
			continue
		}
		raw, err := program.ReadFile(v, maxBytes)
		if err != nil {
			return nil, fmt.Errorf("it is no enode URL, no ENR, and no file: %w", err)
		}
		nodes, err := List(bytes.NewReader(raw))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", v, program.Why(err))
		}
		out = append(out, nodes...)
	}
	return out, nil
}
