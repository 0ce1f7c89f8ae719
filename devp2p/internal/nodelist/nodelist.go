// Package nodelist makes, signs, verifies and merges lists of nodes with onions: what a new
// node begins with. A list is text:
//
//	chive-eth nodes 1
//	published 2026-11-29T00:00:00Z
//	expires 2026-12-29T00:00:00Z
//	enr:-...
//	enr:-...
//	signature KEY SIGNATURE
//
// KEY is an Ed25519 key, and SIGNATURE is its signature of all bytes before the first line that
// begins with "signature", both in hexadecimal. Several keys may sign a list. Each record is one of
// onr/1: its node has signed it, and it has an onion.
package nodelist

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/p2p/enode"

	"github.com/chivenet/chive/devp2p/onr"
)

// The bounds of a list.
const (
	MaxBytes      = 2 << 20
	MaxNodes      = 4096
	MaxValid      = 366 * 24 * time.Hour // from publication to the end
	maxSignatures = 16
	maxAhead      = time.Hour // by which a publisher's clock may be ahead
)

const (
	title     = "chive-eth nodes 1"
	published = "published "
	expires   = "expires "
	signature = "signature "
)

// A List is a list of nodes, without its signatures.
type List struct {
	Published, Expires time.Time
	Nodes              []*enode.Node // one of each identity, in the order of the identities

	Signers []ed25519.PublicKey // of Verify: the trusted keys that have signed it
}

// New makes a list of nodes. Of several records of one node, the newest is taken. It refuses records
// that are none of onr/1.
func New(nodes []*enode.Node, now time.Time, valid time.Duration) (*List, error) {
	if valid < time.Second || valid > MaxValid {
		return nil, fmt.Errorf("a list is valid for a second at least and %d days at most", MaxValid/(24*time.Hour))
	}
	now = now.UTC().Truncate(time.Second)
	l := &List{Published: now, Expires: now.Add(valid.Truncate(time.Second))}
	newest := make(map[enode.ID]*enode.Node)
	for i, n := range nodes {
		if _, err := onr.Check(n.Record()); err != nil {
			return nil, fmt.Errorf("node %d: %w", i+1, err)
		}
		if old := newest[n.ID()]; old == nil || n.Seq() > old.Seq() {
			newest[n.ID()] = n
		}
	}
	for _, n := range newest {
		l.Nodes = append(l.Nodes, n)
	}
	if len(l.Nodes) > MaxNodes {
		return nil, fmt.Errorf("a list has %d nodes at most, and these are %d", MaxNodes, len(l.Nodes))
	}
	slices.SortFunc(l.Nodes, func(a, b *enode.Node) int { return bytes.Compare(a.ID().Bytes(), b.ID().Bytes()) })
	return l, nil
}

// Sign returns the list as text, signed by some keys.
func (l *List) Sign(keys ...ed25519.PrivateKey) ([]byte, error) {
	if len(keys) == 0 || len(keys) > maxSignatures {
		return nil, fmt.Errorf("a list has 1 to %d signatures", maxSignatures)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\n%s%s\n%s%s\n", title, published, l.Published.UTC().Format(time.RFC3339), expires, l.Expires.UTC().Format(time.RFC3339))
	for _, n := range l.Nodes {
		fmt.Fprintln(&b, n.String())
	}
	body := bytes.Clone(b.Bytes())
	for _, k := range keys {
		fmt.Fprintf(&b, "%s%x %x\n", signature, k.Public(), ed25519.Sign(k, body))
	}
	return b.Bytes(), nil
}

// ErrSignature says that nobody who is trusted has signed a list.
var ErrSignature = errors.New("none of the trusted keys has signed the list")

// Verify reads a list that one of some keys has signed, and that is valid now. If anything in it is
// wrong, all of it is refused.
func Verify(text []byte, trusted []ed25519.PublicKey, now time.Time) (*List, error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("the list has more than %d bytes", MaxBytes)
	}
	if !bytes.HasPrefix(text, []byte(title+"\n")) {
		return nil, fmt.Errorf("the text is no list of nodes: its first line is not %q", title)
	}
	at := bytes.Index(text, []byte("\n"+signature))
	if at < 0 {
		return nil, errors.New("the list has no signature")
	}
	body, rest := text[:at+1], string(text[at+1:])
	signers, err := signed(body, rest, trusted)
	if err != nil {
		return nil, err
	}
	l, err := parse(string(body))
	if err != nil {
		return nil, err
	}
	l.Signers = signers
	switch {
	case l.Published.After(now.Add(maxAhead)):
		return nil, fmt.Errorf("the list is of %s, which is in the future: is the clock right?", l.Published.Format(time.RFC3339))
	case !l.Expires.After(now):
		return nil, fmt.Errorf("the list ended on %s: get a newer one", l.Expires.Format(time.DateOnly))
	}
	return l, nil
}

// signed returns the trusted keys whose good signatures are there, at least one. A bad signature is an error, also beside a good
// one; that of a key that is not trusted says nothing.
func signed(body []byte, lines string, trusted []ed25519.PublicKey) (good []ed25519.PublicKey, err error) {
	all := strings.Split(strings.TrimSuffix(lines, "\n"), "\n")
	if len(all) > maxSignatures {
		return nil, fmt.Errorf("the list has more than %d signatures", maxSignatures)
	}
	for i, line := range all {
		value, ok := strings.CutPrefix(line, signature)
		keyText, sigText, ok2 := strings.Cut(value, " ")
		if !ok || !ok2 {
			return nil, fmt.Errorf("signature %d: the line is not: signature KEY SIGNATURE", i+1)
		}
		key, err := ParseKey(keyText)
		if err != nil {
			return nil, fmt.Errorf("signature %d: %w", i+1, err)
		}
		sig, err := hex.DecodeString(sigText)
		if err != nil || len(sig) != ed25519.SignatureSize {
			return nil, fmt.Errorf("signature %d: it is not %d bytes in hexadecimal", i+1, ed25519.SignatureSize)
		}
		if !slices.ContainsFunc(trusted, func(t ed25519.PublicKey) bool { return t.Equal(key) }) {
			continue
		}
		if !ed25519.Verify(key, body, sig) {
			return nil, fmt.Errorf("signature %d is wrong: the list was changed after it was signed", i+1)
		}
		good = append(good, key)
	}
	if len(good) == 0 {
		return nil, ErrSignature
	}
	return good, nil
}

// parse reads what is signed.
func parse(body string) (*List, error) {
	lines := strings.Split(strings.TrimSuffix(body, "\n"), "\n")
	if len(lines) < 3 {
		return nil, errors.New("the list has no times")
	}
	l := new(List)
	for i, f := range []struct {
		name string
		to   *time.Time
	}{{published, &l.Published}, {expires, &l.Expires}} {
		value, ok := strings.CutPrefix(lines[i+1], f.name)
		t, err := time.Parse(time.RFC3339, value)
		if !ok || err != nil {
			return nil, fmt.Errorf("line %d is not: %sTIME", i+2, f.name)
		}
		*f.to = t.UTC()
	}
	if d := l.Expires.Sub(l.Published); d <= 0 || d > MaxValid {
		return nil, fmt.Errorf("the list is not valid for a time of up to %d days", MaxValid/(24*time.Hour))
	}
	lines = lines[3:]
	if len(lines) > MaxNodes {
		return nil, fmt.Errorf("the list has more than %d nodes", MaxNodes)
	}
	seen := make(map[enode.ID]bool)
	for i, line := range lines {
		n, err := enode.Parse(enode.ValidSchemes, line)
		if err == nil && !strings.HasPrefix(line, "enr:") {
			err = errors.New("it is no record (enr:...)")
		}
		if err == nil {
			_, err = onr.Check(n.Record())
		}
		if err == nil && seen[n.ID()] {
			err = errors.New("a second record of one node")
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+4, err)
		}
		seen[n.ID()] = true
		l.Nodes = append(l.Nodes, n)
	}
	return l, nil
}
