package links

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/tomlfile"
)

// Named is a link of a file.
type Named struct {
	Name     string
	Up, Down Direction
}

// File is what a file of links says.
type File struct {
	Seed  uint64
	Links []Named
}

// A field sets a rule from a file's value.
type field struct {
	key string
	set func(r *Rules, v any) error
}

// fields are the keys of [[link]] that set rules.
var fields = []field{
	{"rate", func(r *Rules, v any) (err error) { r.Rate, err = rateOf(v); return }},
	{"delay", timeField(func(r *Rules) *time.Duration { return &r.Delay })},
	{"jitter", func(r *Rules, v any) (err error) {
		s, err := textOf(v)
		if r.Jitter = Shape(s); r.Jitter != Table {
			r.Table = nil
		}
		if r.Jitter == Steady || r.Jitter == Table {
			r.Spread = 0 // of a shape that was before
		}
		return err
	}},
	{"spread", timeField(func(r *Rules) *time.Duration { return &r.Spread })},
	{"table", func(r *Rules, v any) error {
		list, ok := v.([]any)
		if !ok {
			return fault.New(fault.Config, `%v is no list of times, as ["-5ms", "0s", "20ms"]`, v)
		}
		r.Table = nil
		for _, x := range list {
			d, err := timeOf(x)
			if err != nil {
				return err
			}
			r.Table = append(r.Table, d)
		}
		return nil
	}},
	{"loss", chanceField(func(r *Rules) *float64 { return &r.Loss })},
	{"burst-to-bad", chanceField(func(r *Rules) *float64 { return &r.Burst.ToBad })},
	{"burst-to-good", chanceField(func(r *Rules) *float64 { return &r.Burst.ToGood })},
	{"burst-loss-good", chanceField(func(r *Rules) *float64 { return &r.Burst.LossGood })},
	{"burst-loss-bad", chanceField(func(r *Rules) *float64 { return &r.Burst.LossBad })},
	{"reorder", chanceField(func(r *Rules) *float64 { return &r.Reorder })},
	{"reorder-by", timeField(func(r *Rules) *time.Duration { return &r.ReorderBy })},
	{"queue", numberField(func(r *Rules) *int { return &r.Queue })},
	{"discipline", func(r *Rules, v any) error { s, err := textOf(v); r.Discipline = Discipline(s); return err }},
	{"target", timeField(func(r *Rules) *time.Duration { return &r.Target })},
	{"interval", timeField(func(r *Rules) *time.Duration { return &r.Interval })},
	{"mtu", numberField(func(r *Rules) *int { return &r.MTU })},
}

// Keys of a [[link]] beside the rules.
const (
	keyName      = "name"
	keyDirection = "direction"
	keyAt        = "at"
)

// knownKeys are those of a [[link]].
func knownKeys() []string {
	out := []string{keyName, keyDirection, keyAt}
	for _, f := range fields {
		out = append(out, f.key)
	}
	return out
}

// maxLinks bounds the tables of a file.
const maxLinks = 100_000

// ParseFile reads a file of links. Errors name the file and the line.
func ParseFile(name string, doc []byte) (*File, error) {
	entries, err := tomlfile.Entries(name, doc)
	if err != nil {
		return nil, err
	}
	out := new(File)
	for _, e := range entries {
		at := func(line int, err error) error { return fault.New(fault.Config, "%s:%d: %w", name, line, err) }
		switch e.Key {
		case "seed":
			n, ok := e.Value.(int64)
			if !ok || n < 0 {
				return nil, at(e.Line(), fault.New(fault.Config, "seed: %v is no number from 0", e.Value))
			}
			out.Seed = uint64(n)
		case "link":
			if out.Links, err = ParseTables(name, e); err != nil {
				return nil, err
			}
		default:
			return nil, at(e.Line(), tomlfile.Unknown(e.Key, []string{"seed", "link"}))
		}
	}
	if len(out.Links) == 0 {
		return nil, fault.New(fault.Config, "%s: it has no [[link]]", name)
	}
	return out, nil
}

// ParseTables reads the tables [[link]] of a file with that name, which may have other tables beside them.
func ParseTables(name string, e tomlfile.Entry) ([]Named, error) {
	at := func(line int, err error) error { return fault.New(fault.Config, "%s:%d: %w", name, line, err) }
	tables, ok := tablesOf(e.Value)
	if !ok || len(tables) > maxLinks {
		return nil, at(e.Line(), fault.New(fault.Config, "links are written as [[link]], %d at most", maxLinks))
	}
	var out File
	for i, t := range tables {
		if key, err := out.add(t); err != nil {
			line := e.LineIn(i, key)
			if line == 0 { // it is missing
				line = e.LineIn(i, keyName)
			}
			if line == 0 {
				line = e.Line()
			}
			return nil, at(line, fmt.Errorf("link %d: %w", i+1, err))
		}
	}
	return out.Links, nil
}

func tablesOf(v any) ([]map[string]any, bool) {
	if t, ok := v.([]map[string]any); ok {
		return t, true
	}
	list, ok := v.([]any)
	if !ok {
		return nil, false
	}
	var out []map[string]any
	for _, x := range list {
		t, ok := x.(map[string]any)
		if !ok {
			return nil, false
		}
		out = append(out, t)
	}
	return out, true
}

// add takes over a table. An error comes with the key that is wrong.
func (f *File) add(t map[string]any) (string, error) {
	for key := range t {
		if !slices.Contains(knownKeys(), key) {
			return key, tomlfile.Unknown(key, knownKeys())
		}
	}
	name, err := textOf(t[keyName])
	if err != nil || name == "" {
		return keyName, fault.New(fault.Config, "each link has a name, a text")
	}
	up, down := true, true
	if v, ok := t[keyDirection]; ok {
		switch v {
		case "both":
		case "up":
			down = false
		case "down":
			up = false
		default:
			return keyDirection, fault.New(fault.Config, "direction: %v is none of both, up, down", v)
		}
	}
	when, isStep := time.Duration(0), false
	if v, ok := t[keyAt]; ok {
		if when, err = timeOf(v); err != nil {
			return keyAt, err
		}
		isStep = when > 0
	}
	i := slices.IndexFunc(f.Links, func(n Named) bool { return n.Name == name })
	if i < 0 {
		if isStep {
			return keyAt, fault.New(fault.Config, "at: the first table of the link %q says how it begins, so it has no time", name)
		}
		f.Links = append(f.Links, Named{Name: name})
		i = len(f.Links) - 1
	}
	for _, d := range []struct {
		of   *Direction
		want bool
	}{{&f.Links[i].Up, up}, {&f.Links[i].Down, down}} {
		if d.want {
			if key, err := d.of.change(t, when, isStep); err != nil {
				return key, err
			}
		}
	}
	return "", nil
}

// change applies a table: what it does not say stays as it was.
func (d *Direction) change(t map[string]any, when time.Duration, isStep bool) (string, error) {
	r := d.Rules
	if n := len(d.Steps); n > 0 {
		if !isStep || when <= d.Steps[n-1].At {
			return keyAt, fault.New(fault.Config, "at: %v is not after the step before it", when)
		}
		r = d.Steps[n-1].Rules
	}
	for _, f := range fields {
		if v, ok := t[f.key]; ok {
			if err := f.set(&r, v); err != nil {
				return f.key, fault.New(fault.Config, "%s: %w", f.key, err)
			}
		}
	}
	if err := r.Check(); err != nil {
		var m *Mistake
		if errors.As(err, &m) {
			return m.Key, err
		}
		return "", err
	}
	if isStep {
		d.Steps = append(d.Steps, Step{when, r})
	} else {
		d.Rules = r
	}
	return "", nil
}

func textOf(v any) (string, error) {
	s, ok := v.(string)
	if !ok {
		return "", fault.New(fault.Config, "%v is no text", v)
	}
	return s, nil
}

func timeOf(v any) (time.Duration, error) {
	s, ok := v.(string)
	if !ok {
		return 0, fault.New(fault.Config, `%v is no time, as "50ms"`, v)
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fault.New(fault.Config, `%q is no time, as "50ms"`, s)
	}
	return d, nil
}

func timeField(at func(*Rules) *time.Duration) func(*Rules, any) error {
	return func(r *Rules, v any) (err error) { *at(r), err = timeOf(v); return }
}

func chanceField(at func(*Rules) *float64) func(*Rules, any) error {
	return func(r *Rules, v any) error {
		switch x := v.(type) {
		case float64:
			*at(r) = x
		case int64:
			*at(r) = float64(x)
		default:
			return fault.New(fault.Config, "%v is no chance from 0 to 1, as 0.01", v)
		}
		return nil
	}
}

func numberField(at func(*Rules) *int) func(*Rules, any) error {
	return func(r *Rules, v any) error {
		n, ok := v.(int64)
		if !ok || n < 1 || n > maxQueue {
			return fault.New(fault.Config, "%v is no number of bytes from 1 to %d", v, maxQueue)
		}
		*at(r) = int(n)
		return nil
	}
}

// rateOf reads bits a second: 0, or a text such as "10M" or "2.5 Gbit/s".
func rateOf(v any) (int64, error) {
	if n, ok := v.(int64); ok {
		return n, nil
	}
	s, ok := v.(string)
	bad := fault.New(fault.Config, `%v is no rate, as "10M", "500k" or "10 Mbit/s"`, v)
	if !ok {
		return 0, bad
	}
	s = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(s), "bit/s"))
	factor := 1.0
	for unit, by := range map[string]float64{"k": 1e3, "M": 1e6, "G": 1e9} {
		if number, ok := strings.CutSuffix(s, unit); ok {
			s, factor = strings.TrimSpace(number), by
			break
		}
	}
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || !(n >= 0 && n*factor <= maxRate) {
		return 0, bad
	}
	return int64(n * factor), nil
}
