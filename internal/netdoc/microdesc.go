package netdoc

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"iter"
	"net/netip"
	"slices"
	"strings"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

// Microdesc is a microdescriptor (dir-spec, "computing microdescriptors"): the
// part of a relay's descriptor that clients need, named by its SHA-256 digest.
type Microdesc struct {
	Digest  [32]byte
	Ntor    ident.X25519Key
	Ed      ident.Ed25519ID  // zero when absent
	ORAddrs []netip.AddrPort // "a" lines; consensuses carry them since method 27
	Family  *Family          // nil: none
	Policy4 *PortPolicy      // nil: rejects all
	Policy6 *PortPolicy      // nil: rejects all
}

// Family is what a relay says about its family: relays by identity or nickname,
// and the family keys that certify the relay (proposal 321).
type Family struct {
	RSA       []ident.RSAID // sorted
	Nicknames []string      // lower case, sorted
	IDs       []string      // such as "ed25519:BASE64", sorted
}

const (
	maxFamily    = 4096
	maxMicrodesc = 1 << 17
	microStart   = "onion-key"
)

// SplitMicrodescs yields the texts of a concatenation of microdescriptors, with or
// without C tor's "@" annotations. It ignores text before the first one.
func SplitMicrodescs(b []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for _, one := range splitDocs(b, microStart) {
			if i := bytes.Index(one, []byte("\n@")); i >= 0 { // the next one's annotation
				one = one[:i+1]
			}
			if !yield(one) {
				return
			}
		}
	}
}

// ParseMicrodesc reads one microdescriptor.
func ParseMicrodesc(doc []byte, in *Interner) (*Microdesc, error) {
	if len(doc) > maxMicrodesc {
		return nil, fault.New(fault.Resource, "microdescriptor of %d bytes", len(doc))
	}
	md := &Microdesc{Digest: sha256.Sum256(doc)}
	var family, familyIDs []byte
	hasNtor := false
	s := NewScanner("microdescriptor", doc)
	for it, ok := s.Next(); ok; it, ok = s.Next() {
		a := it.Args
		var err error
		if (it.Start == 0) != it.Is(microStart) {
			return nil, s.Fail("%s must come first and once", microStart)
		}
		switch string(it.Keyword) {
		case microStart: // the TAP key, which is no longer used
			if it.ObjType != nil && string(it.ObjType) != rsaKeyObject {
				err = fault.New(fault.Directory, "object of type %q", clip(it.ObjType))
			}
		case "ntor-onion-key":
			if hasNtor {
				err = fault.New(fault.Directory, "it occurs twice")
			} else {
				err = a.base64("key", md.Ntor[:])
			}
			hasNtor = true
		case "id":
			err = md.parseID(a)
		case "a":
			var ap netip.AddrPort
			if ap, err = a.addrPort(); err == nil && len(md.ORAddrs) < maxORAddrs {
				md.ORAddrs = append(md.ORAddrs, ap)
			}
		case "family":
			family = a.Rest()
		case "family-ids":
			familyIDs = a.Rest()
		case "p":
			md.Policy4, err = in.policy(Args(a.Rest()))
		case "p6":
			md.Policy6, err = in.policy(Args(a.Rest()))
		}
		if err != nil {
			return nil, s.Fail("%w", err)
		}
	}
	if s.Err() != nil {
		return nil, s.Err()
	}
	if !hasNtor {
		return nil, fault.New(fault.Directory, "microdescriptor: no ntor-onion-key")
	}
	var err error
	md.Family, err = in.family(family, familyIDs)
	return md, err
}

func (md *Microdesc) parseID(a Args) error {
	kind, err := a.need("kind")
	if err != nil {
		return err
	}
	if string(kind) != "ed25519" {
		return nil // "rsa1024" is in the consensus; others are not defined yet
	}
	if !md.Ed.IsZero() {
		return fault.New(fault.Directory, "two Ed25519 identities")
	}
	return a.base64("identity", md.Ed[:])
}

// family returns the family that the two lines describe, or nil if it is empty.
func (in *Interner) family(list, ids []byte) (*Family, error) {
	if len(list) == 0 && len(ids) == 0 {
		return nil, nil
	}
	if in == nil {
		return parseFamily(Args(list), Args(ids))
	}
	in.key = append(append(append(in.key[:0], list...), '\n'), ids...)
	if f, ok := in.families[string(in.key)]; ok {
		return f, nil
	}
	f, err := parseFamily(Args(list), Args(ids))
	if err != nil {
		return nil, err
	}
	return put(&in.families, in.key, f), nil
}

// parseFamily reads the words of a "family" line and of a "family-ids" line. Words
// of the first that are neither a fingerprint nor a nickname are ignored, as in C
// tor: they name no relay.
func parseFamily(list, ids Args) (*Family, error) {
	f := new(Family)
	n := 0
	for w, ok := list.Next(); ok; w, ok = list.Next() {
		if n++; n > maxFamily {
			return nil, fault.New(fault.Resource, "family of more than %d", maxFamily)
		}
		if w[0] == '$' {
			var id ident.RSAID
			if len(w) >= 41 && decodeHex("fingerprint", id[:], w[1:41]) == nil { // "=nick" or "~nick" may follow
				f.RSA = append(f.RSA, id)
			}
		} else if validNickname(w) {
			f.Nicknames = append(f.Nicknames, strings.ToLower(string(w)))
		}
	}
	for w, ok := ids.Next(); ok; w, ok = ids.Next() {
		if n++; n > maxFamily {
			return nil, fault.New(fault.Resource, "family of more than %d", maxFamily)
		}
		f.IDs = append(f.IDs, string(w))
	}
	slices.SortFunc(f.RSA, func(a, b ident.RSAID) int { return bytes.Compare(a[:], b[:]) })
	f.RSA = slices.Clip(slices.Compact(f.RSA))
	slices.Sort(f.Nicknames)
	slices.Sort(f.IDs)
	f.Nicknames, f.IDs = slices.Compact(f.Nicknames), slices.Compact(f.IDs)
	return f, nil
}

// Lists reports whether the family's list names the relay.
func (f *Family) Lists(id ident.RSAID, nickname string) bool {
	if f == nil {
		return false
	}
	if _, ok := slices.BinarySearchFunc(f.RSA, id, func(a, b ident.RSAID) int { return bytes.Compare(a[:], b[:]) }); ok {
		return true
	}
	if len(f.Nicknames) == 0 {
		return false
	}
	_, ok := slices.BinarySearch(f.Nicknames, strings.ToLower(nickname))
	return ok
}

// SharesID reports whether one family key certifies both.
func (f *Family) SharesID(o *Family) bool {
	if f == nil || o == nil {
		return false
	}
	for _, id := range f.IDs {
		if _, ok := slices.BinarySearch(o.IDs, id); ok {
			return true
		}
	}
	return false
}

// AppendMicrodesc writes the microdescriptor in the form of consensus method 29
// and later, and sets its digest. onionKey is the relay's TAP key in PKCS#1 form;
// nil leaves the object out.
func (md *Microdesc) AppendMicrodesc(dst, onionKey []byte) []byte {
	start := len(dst)
	dst = appendLine(dst, microStart)
	if onionKey != nil {
		dst = AppendObject(dst, rsaKeyObject, onionKey)
	}
	dst = appendLine(dst, "ntor-onion-key", md.Ntor.String())
	if f := md.Family; f != nil {
		var words []string
		for _, id := range f.RSA {
			words = append(words, "$"+id.String())
		}
		words = append(words, f.Nicknames...)
		if len(words) > 0 {
			dst = appendLine(dst, "family", words...)
		}
		if len(f.IDs) > 0 {
			dst = appendLine(dst, "family-ids", f.IDs...)
		}
	}
	if !md.Policy4.RejectsAll() {
		dst = appendLine(dst, "p", md.Policy4.String())
	}
	if !md.Policy6.RejectsAll() {
		dst = appendLine(dst, "p6", md.Policy6.String())
	}
	if !md.Ed.IsZero() {
		dst = appendLine(dst, "id", "ed25519", base64.RawStdEncoding.EncodeToString(md.Ed[:]))
	}
	md.Digest = sha256.Sum256(dst[start:])
	return dst
}
