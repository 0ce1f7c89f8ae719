package relay

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/cert"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/options"
)

// Files of family keys: their names and formats are C tor's, so that relays of
// both programs can use one key.
const (
	familySecretSuffix = ".secret_family_key"
	familyPublicSuffix = ".public_family_id"
	tagFamily          = "ed25519v1-secret: fmly-id"
)

// familyCertLife is the lifetime of a family certificate. Every descriptor has a
// new certificate, as in C tor.
const familyCertLife = 30 * 24 * time.Hour

// allFamilies stands in Config.FamilyIDs for every family key in the key
// directory.
const allFamilies = "*"

// maxFamilyList bounds the relays of one family line.
const maxFamilyList = 2000

// ParseFamilyList reads the relays of a family from the text of a file:
// fingerprints in C tor's forms, separated by white space or commas. It ignores
// the word MyFamily and the part of a line after "#".
func ParseFamilyList(text string) ([]string, error) {
	var out []string
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		for _, w := range strings.FieldsFunc(line, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\r' || r == '\n' }) {
			if w == "MyFamily" {
				continue
			}
			member, err := familyMember(w)
			if err != nil {
				return nil, options.Wrong("FamilyFile", "%w", err)
			}
			if out = append(out, member); len(out) > maxFamilyList {
				return nil, options.Wrong("FamilyFile", "more than %d relays", maxFamilyList)
			}
		}
	}
	return out, nil
}

// familyMember writes a member as descriptors do. It accepts "$FP", "FP",
// "$FP=name" and "$FP~name", but not a name alone, because any relay can use a
// name.
func familyMember(w string) (string, error) {
	digits, _, _ := strings.Cut(strings.ReplaceAll(strings.TrimPrefix(w, "$"), "~", "="), "=")
	id, err := ident.ParseRSAID(digits)
	if err != nil {
		return "", fault.New(fault.Config, "%q is not a fingerprint of 40 hexadecimal digits", w)
	}
	return "$" + id.String(), nil
}

// family has the family lines of a relay's descriptor.
type family struct {
	list []string // "$FINGERPRINT", sorted, the relay itself among them; nil: none
	keys []*cert.ExpandedKey
}

// loadFamily makes the list, and reads the keys that ids names.
func loadFamily(dir keyDir, self ident.RSAID, list, ids []string) (*family, error) {
	f := new(family)
	for _, w := range list {
		m, err := familyMember(w)
		if err != nil {
			return nil, err
		}
		f.list = append(f.list, m)
	}
	if len(f.list) > 0 {
		f.list = append(f.list, "$"+self.String())
		slices.Sort(f.list)
		f.list = slices.Compact(f.list)
	}
	if len(ids) == 0 {
		return f, nil
	}
	all, err := dir.familyKeys()
	if err != nil {
		return nil, err
	}
	for _, w := range ids {
		if w == allFamilies {
			if len(all) == 0 {
				return nil, options.Wrong("FamilyIDs", "no file %s of a family key is here", dir.path("*"+familySecretSuffix))
			}
			f.keys = all
			return f, nil
		}
		id, err := familyID(w)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(all, func(k *cert.ExpandedKey) bool { return k.Public() == id })
		if i < 0 {
			return nil, options.Wrong("FamilyIDs", "the key of family %s is in no file %s", w, dir.path("*"+familySecretSuffix))
		}
		f.keys = append(f.keys, all[i])
	}
	return f, nil
}

// familyID reads a family's name: the base64 of its public key.
func familyID(w string) (id ident.Ed25519ID, err error) {
	if id, err = ident.ParseEd25519ID(w); err != nil {
		return id, fault.New(fault.Config, "%q is neither a family's identity (43 characters of base64) nor *", w)
	}
	return id, nil
}

// familyKeys reads every family key of the directory, in the order of their
// names.
func (d keyDir) familyKeys() ([]*cert.ExpandedKey, error) {
	entries, err := os.ReadDir(string(d))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.Local, "keys: %w", err)
	}
	var out []*cert.ExpandedKey
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), familySecretSuffix) || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		b, err := d.readTagged(e.Name(), tagFamily, cert.ExpandedLen)
		if err != nil {
			return nil, err
		}
		k, err := cert.NewExpanded(b)
		if err != nil {
			return nil, err
		}
		out = append(out, k)
	}
	if len(out) > maxFamilies {
		return nil, fault.New(fault.Config, "keys: %d family keys: a relay may have %d", len(out), maxFamilies)
	}
	return out, nil
}

// maxFamilies is how many family certificates a descriptor may have.
const maxFamilies = 16

// certs makes a certificate for a relay with every family key.
func (f *family) certs(relay ident.Ed25519ID, now time.Time) [][]byte {
	var out [][]byte
	for _, k := range f.keys {
		c := cert.Ed25519{Type: cert.FamilyVIdentity, Expires: now.Add(familyCertLife), KeyType: cert.KeyEd25519, Key: relay, Signer: k.Public(), HasSigner: true}
		out = append(out, c.Encode(k.Sign))
	}
	return out
}

// MakeFamilyKey makes a family's key in the files name.secret_family_key and
// name.public_family_id, and returns the family's identity. An existing key is
// not replaced.
func MakeFamilyKey(name string) (id string, err error) {
	dir, base := keyDir(filepath.Dir(name)), filepath.Base(name)
	if _, err := os.Lstat(dir.path(base + familySecretSuffix)); !errors.Is(err, fs.ErrNotExist) {
		return "", fault.New(fault.Config, "family key: %s is there already", dir.path(base+familySecretSuffix))
	}
	k, err := cert.GenerateExpanded(rand.Reader)
	if err != nil {
		return "", err
	}
	if err := dir.writeTagged(base+familySecretSuffix, tagFamily, k.Bytes()); err != nil {
		return "", err
	}
	id = k.Public().String()
	return id, dir.write(base+familyPublicSuffix, []byte(id+"\n"))
}
