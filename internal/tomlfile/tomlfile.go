// Package tomlfile writes TOML, and reads it strictly: an unknown key is an error that
// names it and the key that was probably meant.
package tomlfile

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/chivenet/chive/internal/fault"
)

// MaxSize is the largest size of a file, in bytes.
const MaxSize = 4 << 20

// Decode reads doc into v, which toml.Decode must accept. known lists the keys of
// every table, for suggestions. what names the file in errors, which are of kind
// Config and name the line of a syntax error.
func Decode(what string, doc []byte, v any, known []string) error {
	md, err := decode(what, doc, v)
	if err != nil {
		return err
	}
	if unknown := md.Undecoded(); len(unknown) > 0 {
		return fault.New(fault.Config, "%s: %w", what, Unknown(unknown[0].String(), known))
	}
	return nil
}

func decode(what string, doc []byte, v any) (toml.MetaData, error) {
	var none toml.MetaData
	if len(doc) > MaxSize {
		return none, fault.New(fault.Config, "%s: %d bytes, more than the %d that such a file may have", what, len(doc), MaxSize)
	}
	if err := checkNesting(doc); err != nil {
		return none, fault.New(fault.Config, "%s:%w", what, err)
	}
	md, err := toml.Decode(string(doc), v)
	var pe toml.ParseError
	switch {
	case errors.As(err, &pe):
		return none, fault.New(fault.Config, "%s:%d: %s", what, pe.Position.Line, pe.Message)
	case err != nil:
		return none, fault.New(fault.Config, "%s: %w", what, err)
	}
	return md, nil
}

// Encode writes v without indents.
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := toml.NewEncoder(&b)
	e.Indent = ""
	if err := e.Encode(v); err != nil {
		return nil, fault.New(fault.Local, "writing TOML: %w", err)
	}
	return b.Bytes(), nil
}

// Entry is a key of a document's top level, with its value: string, int64, float64, bool, a
// time, []any or map[string]any.
type Entry struct {
	Key   string
	Value any
	// Line returns the line of the value; of a text over several lines, the last. It
	// looks through the whole document: ask for it only to report a mistake.
	Line func() int
	// LineIn returns the line of a key of the i-th table, from 0, if the value is a list of
	// tables; zero: it is not there.
	LineIn func(i int, key string) int
}

// Entries reads doc, and returns the keys of its top level in their order. It returns
// the same errors as Decode.
func Entries(what string, doc []byte) ([]Entry, error) {
	var all map[string]toml.Primitive
	md, err := decode(what, doc, &all)
	if err != nil {
		return nil, err
	}
	var entries []Entry
	keys, seen := md.Keys(), map[string]bool{}
	for i, k := range keys {
		if seen[k[0]] {
			continue
		}
		seen[k[0]] = true
		p := all[k[0]]
		e := Entry{Key: k[0], Line: func() int { return lineOf(&md, keys[i:], k[:1], p) }, LineIn: func(i int, key string) int {
			var tables []map[string]toml.Primitive
			if md.PrimitiveDecode(p, &tables) != nil || i >= len(tables) {
				return 0
			}
			if line := lineInTable(doc, k[0], i, len(tables), key); line > 0 {
				return line
			}
			return lineOf(&md, nil, nil, tables[i][key])
		}}
		if err := md.PrimitiveDecode(p, &e.Value); err != nil {
			return nil, fault.New(fault.Config, "%s: %w", what, err)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// lineOf returns the line of a value, whose key is at. The parser reveals it only in an
// error. A table without a header line, such as "a" in "a.b = 1", has the line of its
// first key among keys.
func lineOf(md *toml.MetaData, keys []toml.Key, at toml.Key, p toml.Primitive) int {
	var pe toml.ParseError
	if errors.As(md.PrimitiveDecode(p, new(refusal)), &pe) && pe.Position.Line > 0 {
		return pe.Position.Line
	}
	var table map[string]toml.Primitive
	if md.PrimitiveDecode(p, &table) != nil {
		return 0 // no table
	}
	n := len(at)
	for _, k := range keys {
		if len(k) <= n || !slices.Equal(k[:n], at) {
			continue
		}
		if p, ok := table[k[n]]; ok {
			return lineOf(md, keys, k[:n+1], p)
		}
	}
	return 0
}

// refusal is a value that no document can have.
type refusal struct{}

var errRefused = errors.New("refused")

func (*refusal) UnmarshalTOML(any) error { return errRefused }

// Unknown returns the error for a key that is not among known. It suggests
// the nearest of them, by its last part when the key has several.
func Unknown(key string, known []string) error {
	last := key[strings.LastIndexByte(key, '.')+1:]
	if near := Nearest(last, known); near != "" {
		return fault.New(fault.Config, "unknown key %q; did you mean %q?", key, near)
	}
	return fault.New(fault.Config, "unknown key %q", key)
}

// Nearest returns the choice with the least edit distance to s, or "" if none is
// near enough to be a typing mistake.
func Nearest(s string, choices []string) string {
	best, least := "", len(s)/3+2
	for _, c := range choices {
		if d := distance(strings.ToLower(s), c, least); d < least {
			best, least = c, d
		}
	}
	return best
}

// distance returns the Levenshtein distance, or limit if the distance is at least
// that. "-" and "_" count as equal: to confuse them is the most common mistake.
func distance(a, b string, limit int) int {
	fold := strings.NewReplacer("_", "-")
	a, b = fold.Replace(a), fold.Replace(b)
	if abs(len(a)-len(b)) >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j]+1, row[j+1]+1)
		}
		if slices.Min(row) >= limit {
			return limit
		}
	}
	return row[len(b)]
}

func abs(n int) int { return max(n, -n) }
