package daemon

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/spf13/pflag"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/tomlfile"
)

// optionSet are settings that flags give, and a configuration file with the
// same names.
type optionSet struct {
	flags    *pflag.FlagSet
	fileOnly *pflag.FlagSet // what a file may have although the command has no such flag
	file     string         // the configuration file; empty: none was read
}

// newOptionSet returns the settings that are bound to flags in fs.
func newOptionSet(fs *pflag.FlagSet) optionSet {
	return optionSet{flags: fs, fileOnly: pflag.NewFlagSet("file", pflag.ContinueOnError)}
}

// LoadFile reads a configuration file: TOML whose keys are the flags' names.
// A flag that was given on the command line wins over the file. A key that is
// no flag is an error that names it.
func (s *optionSet) LoadFile(path string) error {
	s.file = path
	doc, err := os.ReadFile(path)
	if err != nil {
		return fault.New(fault.Config, "configuration file: %w", err)
	}
	return s.apply(path, doc)
}

func (s *optionSet) apply(what string, doc []byte) error {
	var keys map[string]any
	if err := tomlfile.Decode(what, doc, &keys, nil); err != nil {
		return err
	}
	options := s.options()
	known := slices.Sorted(maps.Keys(options))
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		f, ok := options[k]
		if !ok {
			return fault.New(fault.Config, "%s: %w", what, tomlfile.Unknown(k, known))
		}
		if f.Changed {
			continue
		}
		if err := set(f, keys[k]); err != nil {
			return fault.New(fault.Config, "%s: %s: %w", what, k, err)
		}
	}
	return nil
}

// notSettings are flags that a file cannot have: they are about one command.
var notSettings = map[string]bool{"config": true, "help": true, "cpu-profile": true, "output": true, "header": true}

// options returns what a file may set, by name.
func (s *optionSet) options() map[string]*pflag.Flag {
	m := map[string]*pflag.Flag{}
	for _, fs := range []*pflag.FlagSet{s.flags, s.fileOnly} {
		fs.VisitAll(func(f *pflag.Flag) {
			if !notSettings[f.Name] {
				m[f.Name] = f
			}
		})
	}
	return m
}

// set gives a flag a value from TOML. The types must agree: a string where a
// number belongs is more likely a mistake than a wish.
func set(f *pflag.Flag, v any) error {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		texts, err := stringList(v)
		if err != nil {
			return err
		}
		return list.Replace(texts)
	}
	want := "string" // of durations and names too
	switch f.Value.Type() {
	case "bool":
		want = "boolean"
	case "int", "uint64":
		want = "integer"
	}
	if typeName(v) != want {
		return fault.New(fault.Config, "%v: %s, not %s", v, typeName(v), want)
	}
	if err := f.Value.Set(fmt.Sprint(v)); err != nil {
		return fault.New(fault.Config, "%w", unquoteNumError(err))
	}
	return nil
}

// unquoteNumError keeps pflag's errors to what they say of the value.
func unquoteNumError(err error) error {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	return err
}

// stringList takes a list of strings, or one string for a list of one.
func stringList(v any) ([]string, error) {
	switch v := v.(type) {
	case string:
		return []string{v}, nil
	case []any:
		out := make([]string, len(v))
		for i, e := range v {
			s, ok := e.(string)
			if !ok {
				return nil, fault.New(fault.Config, "entry %d: %s, not string", i+1, typeName(e))
			}
			out[i] = s
		}
		return out, nil
	}
	return nil, fault.New(fault.Config, "%s, not a list of strings", typeName(v))
}

func typeName(v any) string {
	switch v.(type) {
	case string:
		return "string"
	case int64:
		return "integer"
	case float64:
		return "number"
	case bool:
		return "boolean"
	case map[string]any:
		return "table"
	case []any, []map[string]any:
		return "list"
	}
	return "date"
}

// changed lists the options whose values differ between two settings.
func changed(a, b *optionSet) []string {
	var out []string
	for name, f := range a.options() {
		if g := b.options()[name]; g != nil && g.Value.String() != f.Value.String() {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
