package guard

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

// stateVersion is the version of the saved form.
const stateVersion = 1

// maxSaved bounds the members of a saved set; bridges have no bound of their own.
const maxSaved = 5000

// savedFile is the saved form: the sets, and a digest of their compact JSON that
// detects a damaged file.
type savedFile struct {
	Version int             `json:"version"`
	SHA256  string          `json:"sha256"`
	Sets    json.RawMessage `json:"sets"`
}

// savedGuard is one member, in sample order.
type savedGuard struct {
	RSA           string     `json:"rsa"`          // hexadecimal
	Ed            string     `json:"ed,omitempty"` // base64
	Nickname      string     `json:"nickname,omitempty"`
	AddedAt       time.Time  `json:"added_at"`
	AddedBy       string     `json:"added_by,omitempty"`
	Listed        bool       `json:"listed"`
	UnlistedSince *time.Time `json:"unlisted_since,omitempty"`
	ConfirmedAt   *time.Time `json:"confirmed_at,omitempty"`
	Confirmed     int        `json:"confirmed,omitempty"` // position in the confirmed list, from 1
	Bias          bias       `json:"bias"`
}

func encode(sets map[string]*set) []byte {
	saved := map[string][]savedGuard{}
	for name, s := range sets {
		list := make([]savedGuard, 0, len(s.sample))
		for _, g := range s.sample {
			sg := savedGuard{
				RSA: g.id.RSA.String(), Nickname: g.nickname, AddedAt: g.addedAt, AddedBy: g.addedBy,
				Listed: g.listed, UnlistedSince: optional(g.unlistedSince), ConfirmedAt: optional(g.confirmedAt),
				Confirmed: slices.Index(s.confirmed, g) + 1, Bias: g.bias,
			}
			if !g.id.Ed.IsZero() {
				sg.Ed = g.id.Ed.String()
			}
			list = append(list, sg)
		}
		saved[name] = list
	}
	body, err := json.Marshal(saved)
	if err != nil {
		panic(err) // strings, finite numbers, and dates of this era
	}
	sum := sha256.Sum256(body)
	out, err := json.MarshalIndent(savedFile{stateVersion, hex.EncodeToString(sum[:]), body}, "", " ")
	if err != nil {
		panic(err) // as above
	}
	return append(out, '\n')
}

func optional(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func corrupt(format string, args ...any) error {
	return fault.New(fault.Local, "guard state: "+format, args...)
}

// decode reads and verifies what encode wrote.
func decode(b []byte, now time.Time) (map[string]*set, error) {
	if len(b) > maxStateSize {
		return nil, corrupt("more than %d bytes", maxStateSize)
	}
	var f savedFile
	if err := strict(b, &f); err != nil {
		return nil, err
	}
	if f.Version != stateVersion {
		return nil, corrupt("version %d, not %d", f.Version, stateVersion)
	}
	var body bytes.Buffer
	if err := json.Compact(&body, f.Sets); err != nil {
		return nil, corrupt("%w", err)
	}
	if sum := sha256.Sum256(body.Bytes()); hex.EncodeToString(sum[:]) != f.SHA256 {
		return nil, corrupt("the digest does not match: the file is damaged")
	}
	var saved map[string][]savedGuard
	if err := strict(f.Sets, &saved); err != nil {
		return nil, err
	}
	sets := map[string]*set{}
	for name, list := range saved {
		if name != setDefault && name != setRestricted && name != setBridges {
			return nil, corrupt("set %q is unknown", name)
		}
		s, err := decodeSet(name, list, now)
		if err != nil {
			return nil, corrupt("set %q: %w", name, err)
		}
		sets[name] = s
	}
	return sets, nil
}

func strict(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return corrupt("%w", err)
	}
	if d.More() {
		return corrupt("data after the end")
	}
	return nil
}

func decodeSet(name string, list []savedGuard, now time.Time) (*set, error) {
	if len(list) > maxSaved {
		return nil, corrupt("%d members, more than %d", len(list), maxSaved)
	}
	s := &set{name: name}
	confirmed := map[int]*sampled{}
	seen := map[ident.RSAID]bool{}
	for i := range list {
		g, err := decodeGuard(&list[i], now)
		if err != nil {
			return nil, corrupt("member %d: %w", i+1, err)
		}
		if seen[g.id.RSA] {
			return nil, corrupt("member %d occurs twice", i+1)
		}
		seen[g.id.RSA] = true
		s.sample = append(s.sample, g)
		if n := list[i].Confirmed; n != 0 {
			confirmed[n] = g
		} else if g.isConfirmed() {
			return nil, corrupt("member %d is confirmed but has no position in the confirmed list", i+1)
		}
	}
	for n := 1; n <= len(confirmed); n++ {
		if g := confirmed[n]; g == nil || !g.isConfirmed() {
			return nil, corrupt("position %d of the confirmed list is empty", n)
		}
	}
	if s.confirmed = s.members((*sampled).isConfirmed); len(s.confirmed) != len(confirmed) {
		return nil, corrupt("two members have the same position in the confirmed list")
	}
	return s, nil
}

func decodeGuard(sg *savedGuard, now time.Time) (*sampled, error) {
	g := &sampled{nickname: sg.Nickname, addedBy: sg.AddedBy, listed: sg.Listed, bias: sg.Bias}
	var err error
	if g.id.RSA, err = ident.ParseRSAID(sg.RSA); err != nil {
		return nil, err
	}
	if sg.Ed != "" {
		if g.id.Ed, err = ident.ParseEd25519ID(sg.Ed); err != nil {
			return nil, err
		}
	}
	if g.id.RSA.IsZero() || sg.AddedAt.IsZero() || sg.Confirmed < 0 || len(sg.Nickname) > 19 || len(sg.AddedBy) > 100 {
		return nil, corrupt("a field is missing or out of bounds")
	}
	for _, c := range []float64{
		g.bias.CircAttempts, g.bias.CircSuccesses, g.bias.ClosedWell, g.bias.Collapsed,
		g.bias.Unusable, g.bias.Timeouts, g.bias.UseAttempts, g.bias.UseSuccesses,
	} {
		if !(c >= 0 && c <= math.MaxInt32) {
			return nil, corrupt("a count is out of bounds")
		}
	}
	g.addedAt = past(sg.AddedAt, now)
	if sg.UnlistedSince != nil {
		g.unlistedSince = past(*sg.UnlistedSince, now)
	}
	if sg.ConfirmedAt != nil {
		g.confirmedAt = past(*sg.ConfirmedAt, now)
	}
	if g.listed != g.unlistedSince.IsZero() || g.isConfirmed() != (sg.Confirmed > 0) {
		return nil, corrupt("its dates contradict its state")
	}
	g.cur = Candidate{ID: g.id, Nickname: g.nickname}
	return g, nil
}

// past returns t, or now when t is later: a date from a wrong clock must not keep a
// guard longer than its lifetime.
func past(t, now time.Time) time.Time {
	if t.After(now) {
		return now.Truncate(time.Second).UTC()
	}
	return t.UTC()
}
