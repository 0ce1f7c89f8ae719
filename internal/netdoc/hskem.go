package netdoc

import "github.com/chivenet/chive/internal/fault"

// The line of a service's ML-KEM key (docs/spec/pq-onions.md, section 2).
const (
	hsKEMKeyword = "chive-pq-kem"
	hsKEMSet     = "2" // ML-KEM-768
	hsKEMObject  = "ML-KEM PUBLIC KEY"

	// HSKEMLen is the length of HSInner.KEM, in bytes.
	HSKEMLen = 1184
)

// appendKEM writes the key, if there is one.
func (h *HSInner) appendKEM(b []byte) ([]byte, error) {
	switch len(h.KEM) {
	case 0:
		return b, nil
	case HSKEMLen:
		return AppendObject(appendLine(b, hsKEMKeyword, hsKEMSet), hsKEMObject, h.KEM), nil
	}
	return nil, fault.New(fault.Local, "%s: an ML-KEM key of %d bytes, not %d", hsDescriptorID, len(h.KEM), HSKEMLen)
}

// kem reads the line. One that is wrong makes the whole descriptor invalid: without
// the key a client would do with less protection.
func (h *HSInner) kem(it *Item, seen *seen) error {
	a := it.Args
	set, err := a.need("parameter set")
	if err != nil || string(set) != hsKEMSet {
		return err // another set is a later version's
	}
	if err := seen.once(it.Keyword); err != nil {
		return err
	}
	if h.KEM, err = it.Object(hsKEMObject); err == nil && len(h.KEM) != HSKEMLen {
		err = fault.New(fault.Directory, "a key of %d bytes, not %d", len(h.KEM), HSKEMLen)
	}
	return err
}
