package guard

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

// vanguardVersion is the version of the saved form.
const vanguardVersion = 1

// savedVanguards is the saved form: the layers, the second hop's first, and a digest of
// their compact JSON that detects a damaged file.
type savedVanguards struct {
	Version int             `json:"version"`
	SHA256  string          `json:"sha256"`
	Layers  json.RawMessage `json:"layers"`
}

type savedVanguard struct {
	RSA     string    `json:"rsa"` // hexadecimal
	Expires time.Time `json:"expires"`
}

// load fills the layers from the store.
func (v *Vanguards) load(now time.Time) error {
	b, err := v.store.Load()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fault.New(fault.Local, "read vanguards: %w", err)
	}
	layers, err := decodeVanguards(b, len(v.rows))
	if err != nil {
		v.log.Warn("the saved vanguards cannot be read; they are set aside, and new ones are chosen", "file", v.store, "err", err)
		if err := v.store.SetAside(); err != nil {
			return fault.New(fault.Local, "set damaged vanguards aside: %w", err)
		}
		return nil
	}
	v.layers = layers
	return nil
}

// Changed receives a value when there is something to save.
func (v *Vanguards) Changed() <-chan struct{} { return v.changed }

// unsaved encodes the layers if they changed since they were last saved, else nil.
func (v *Vanguards) unsaved() []byte {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.dirty {
		return nil
	}
	v.dirty = false
	return encodeVanguards(v.layers)
}

// Save saves the vanguards if they changed since they were last saved.
func (v *Vanguards) Save() error {
	v.saving.Lock() // an older state must not overwrite a newer one
	defer v.saving.Unlock()
	b := v.unsaved()
	if b == nil {
		return nil
	}
	if err := v.store.Save(b); err != nil {
		v.mu.Lock()
		v.dirty = true
		v.mu.Unlock()
		return fault.New(fault.Local, "save vanguards: %w", err)
	}
	return nil
}

func encodeVanguards(layers [][]vanguard) []byte {
	saved := make([][]savedVanguard, len(layers))
	for i, list := range layers {
		saved[i] = []savedVanguard{}
		for _, g := range list {
			saved[i] = append(saved[i], savedVanguard{g.id.String(), g.expires.UTC()})
		}
	}
	body, err := json.Marshal(saved)
	if err != nil {
		panic(err) // strings, and dates of this era
	}
	sum := sha256.Sum256(body)
	out, err := json.MarshalIndent(savedVanguards{vanguardVersion, hex.EncodeToString(sum[:]), body}, "", " ")
	if err != nil {
		panic(err) // as above
	}
	return append(out, '\n')
}

// decodeVanguards reads and verifies what encodeVanguards wrote.
func decodeVanguards(b []byte, layers int) ([][]vanguard, error) {
	if len(b) > maxStateSize {
		return nil, corrupt("more than %d bytes", maxStateSize)
	}
	var f savedVanguards
	if err := strict(b, &f); err != nil {
		return nil, err
	}
	if f.Version != vanguardVersion {
		return nil, corrupt("version %d, not %d", f.Version, vanguardVersion)
	}
	var body bytes.Buffer
	if err := json.Compact(&body, f.Layers); err != nil {
		return nil, corrupt("%w", err)
	}
	if sum := sha256.Sum256(body.Bytes()); hex.EncodeToString(sum[:]) != f.SHA256 {
		return nil, corrupt("the digest does not match: the file is damaged")
	}
	var saved [][]savedVanguard
	if err := strict(f.Layers, &saved); err != nil {
		return nil, err
	}
	if len(saved) != layers {
		return nil, corrupt("%d layers, not %d", len(saved), layers)
	}
	out := make([][]vanguard, layers)
	for i, list := range saved {
		if len(list) > maxVanguards {
			return nil, corrupt("layer %d: %d members, more than %d", i+2, len(list), maxVanguards)
		}
		seen := map[ident.RSAID]bool{}
		for _, s := range list {
			id, err := ident.ParseRSAID(s.RSA)
			if err != nil {
				return nil, corrupt("layer %d: %w", i+2, err)
			}
			if id.IsZero() || seen[id] || s.Expires.IsZero() {
				return nil, corrupt("layer %d: a member is incomplete, or there twice", i+2)
			}
			seen[id] = true
			out[i] = append(out[i], vanguard{id, s.Expires.UTC()})
		}
	}
	return out, nil
}
