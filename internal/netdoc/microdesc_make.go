package netdoc

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/chivenet/chive/internal/ident"
)

// The consensus methods from which microdescriptors change.
const (
	familyIDsMethod = 35 // family keys
	// NoTAPMethod is the first consensus method that makes a microdescriptor of a
	// descriptor without a TAP key.
	NoTAPMethod   = 36
	compactMethod = 37 // neither TAP keys nor family lists, whatever the descriptor has
)

// MakeMicrodesc returns the microdescriptor of a relay and its digest, in the
// form of consensus method 32 and later (dir-spec, "computing
// microdescriptors"). Not ok: this method makes none of this descriptor.
func MakeMicrodesc(d *RouterDesc, method int) (text []byte, digest [32]byte, ok bool) {
	if d.OnionKey == nil && method < NoTAPMethod {
		return nil, digest, false
	}
	b := appendLine(nil, microStart)
	if d.OnionKey != nil && method < compactMethod {
		b = AppendObject(b, rsaKeyObject, d.OnionKey)
	}
	b = appendLine(b, "ntor-onion-key", d.Ntor.String())
	if len(d.Family) > 0 && method < compactMethod {
		b = appendLine(b, "family", canonicalFamily(d.Family, d.RSA)...)
	}
	if method >= familyIDsMethod && len(d.FamilyIDs) > 0 {
		var ids []string
		for _, id := range d.FamilyIDs {
			ids = append(ids, "ed25519:"+id.String())
		}
		slices.Sort(ids)
		b = appendLine(b, "family-ids", slices.Compact(ids)...)
	}
	const nothing = "reject 1-65535"
	if p := d.Policy.Summarize(false).String(); p != nothing {
		b = appendLine(b, "p", p)
	}
	if d.Policy6 != nil && d.Policy6.String() != nothing {
		b = appendLine(b, "p6", d.Policy6.String())
	}
	b = appendLine(b, "id", "ed25519", d.Ed.String())
	return b, sha256.Sum256(b), true
}

// canonicalFamily writes a family's members in a canonical form: fingerprints in
// upper case without a nickname, nicknames in lower case, all sorted, with the
// relay itself. Words that are neither stay as they are.
func canonicalFamily(words []string, self ident.RSAID) []string {
	out := []string{"$" + self.String()}
	seen := map[string]bool{out[0]: true}
	for _, w := range words {
		hexPart := strings.TrimPrefix(w, "$")
		_, err := hex.DecodeString(hexPart[:min(40, len(hexPart))])
		named := len(hexPart) == 40 || (len(hexPart) > 41 && (hexPart[40] == '=' || hexPart[40] == '~') && validNickname([]byte(hexPart[41:])))
		understood := true
		switch {
		case validNickname([]byte(w)):
			w = strings.ToLower(w)
		case err == nil && named:
			w = "$" + strings.ToUpper(hexPart[:40])
		default:
			understood = false // C tor removes duplicates only among words that it understands
		}
		if !understood || !seen[w] {
			out, seen[w] = append(out, w), true
		}
	}
	slices.Sort(out)
	return out
}
