// Package tomlfile reads TOML strictly: a key that nobody reads is an error
// that names it and the key that was probably meant.
package tomlfile

import (
	"errors"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/chivenet/chive/internal/fault"
)

// MaxSize bounds a file that is read whole, in bytes.
const MaxSize = 4 << 20

// Decode reads doc into v, which toml.Decode must accept. known lists the keys
// of every table, for suggestions. what names the file in errors, which are
// of kind Config and say the line where TOML itself is broken.
func Decode(what string, doc []byte, v any, known []string) error {
	if len(doc) > MaxSize {
		return fault.New(fault.Config, "%s: %d bytes, more than the %d that such a file may have", what, len(doc), MaxSize)
	}
	if err := checkNesting(doc); err != nil {
		return fault.New(fault.Config, "%s: %w", what, err)
	}
	md, err := toml.Decode(string(doc), v)
	var pe toml.ParseError
	switch {
	case errors.As(err, &pe):
		return fault.New(fault.Config, "%s: line %d: %s", what, pe.Position.Line, pe.Message)
	case err != nil:
		return fault.New(fault.Config, "%s: %w", what, err)
	}
	if unknown := md.Undecoded(); len(unknown) > 0 {
		return fault.New(fault.Config, "%s: %w", what, Unknown(unknown[0].String(), known))
	}
	return nil
}

// Unknown returns the error for a key that is not among known. It suggests
// the nearest of them, by its last part when the key has several.
func Unknown(key string, known []string) error {
	last := key[strings.LastIndexByte(key, '.')+1:]
	if near := nearest(last, known); near != "" {
		return fault.New(fault.Config, "unknown key %q; did you mean %q?", key, near)
	}
	return fault.New(fault.Config, "unknown key %q", key)
}

// nearest returns the choice with the least edit distance to s, or "" when
// none is near enough to be a slip of the keyboard.
func nearest(s string, choices []string) string {
	best, least := "", len(s)/3+2
	for _, c := range choices {
		if d := distance(strings.ToLower(s), c, least); d < least {
			best, least = c, d
		}
	}
	return best
}

// distance is Levenshtein's, or limit when it is at least that. "-" and "_"
// count as equal: which one joins words is the commonest slip.
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
