package options

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/tomlfile"
)

// Part is a table with the structure that has its fields.
type Part struct {
	Table Table
	Of    any // a pointer to the structure
	// FileOnly options have no flag: a file may have them, so that one file serves several
	// commands.
	FileOnly bool
	// Section is the name of tables that a file may have several of, such as [[onion]]. The
	// options are theirs, and Of is not used: Add returns a pointer to the structure of one
	// more table.
	Section string
	Add     func() any
}

// Set is all options of a command, with their values. Make it with Bind.
type Set struct {
	file string // the configuration file that was read; empty: none

	sections map[string]Part
	written  map[string]string                      // each section as the file has it, to compare
	lineIn   map[string]func(i int, key string) int // of the sections in the file
	all      []*Value
	byKey    map[string]*Value
}

// Value is an option with its value. It is a pflag.Value.
type Value struct {
	*Option
	Group    string
	FileOnly bool
	Live     bool // a running node can apply a new value at once

	v    reflect.Value
	flag bool       // the command line set it
	line func() int // of the file that set it; nil: no file did
}

// Bind sets every option to its default value. It joins groups with the same
// title.
func Bind(parts ...Part) *Set {
	s := &Set{byKey: map[string]*Value{}, sections: map[string]Part{}, written: map[string]string{}, lineIn: map[string]func(int, string) int{}}
	var titles []string
	for _, p := range parts {
		if p.Section != "" {
			s.sections[p.Section] = p
			continue
		}
		at := reflect.ValueOf(p.Of).Elem()
		for _, g := range p.Table {
			if !slices.Contains(titles, g.Title) {
				titles = append(titles, g.Title)
			}
			for i := range g.Options {
				o := &g.Options[i]
				v := &Value{Option: o, Group: g.Title, FileOnly: p.FileOnly, Live: live(at, o.Field), v: o.in(at)}
				if err := v.setDefault(); err != nil || s.byKey[o.Key] != nil {
					panic(fmt.Sprintf("options: %s is there twice, or its default value is wrong: %v", o.Key, err))
				}
				s.all, s.byKey[o.Key] = append(s.all, v), v
			}
		}
	}
	slices.SortStableFunc(s.all, func(a, b *Value) int {
		return cmp.Compare(slices.Index(titles, a.Group), slices.Index(titles, b.Group))
	})
	return s
}

// live reports whether a field has the tag reload:"live", which package role reads too.
func live(v reflect.Value, field string) bool {
	f, _ := v.Type().FieldByName(field)
	return f.Tag.Get("reload") != ""
}

func (v *Value) setDefault() error {
	v.v.SetZero()
	if v.Default == "" {
		return nil
	}
	return v.parse(v.v, v.Default)
}

// All returns the options, group by group.
func (s *Set) All() []*Value { return s.all }

// File returns the name of the configuration file that was read, or "".
func (s *Set) File() string { return s.file }

// String returns the value as a user would write it on the command line.
func (v *Value) String() string {
	switch v.v.Interface().(type) {
	case time.Duration, []string, map[string]int32:
		if v.v.IsZero() {
			return "" // which is no default value to show
		}
	}
	return text(v.v)
}

// Set takes a value from the command line.
func (v *Value) Set(s string) error {
	if !v.flag {
		v.v.SetZero() // a list replaces the default list
	}
	v.flag = true
	return v.parse(v.v, s)
}

// Type names the type as package pflag does.
func (v *Value) Type() string {
	switch v.v.Interface().(type) {
	case []string:
		if v.Lines {
			return "stringArray"
		}
		return "stringSlice"
	case map[string]int32:
		return "stringToInt"
	case bool, int, uint64:
		return v.v.Kind().String()
	case string:
		return "string"
	}
	return "text" // of a time or a mode, which needs no quotes
}

// ReadFile sets values from doc, a configuration file: TOML whose keys are the
// options' names. A flag of the command line overrides the file. An unknown key
// is an error.
func (s *Set) ReadFile(name string, doc []byte) error {
	s.file = name
	entries, err := tomlfile.Entries(name, doc)
	if err != nil {
		return err
	}
	known := slices.Sorted(maps.Keys(s.byKey))
	known = slices.AppendSeq(known, maps.Keys(s.sections))
	for _, e := range entries {
		if p, ok := s.sections[e.Key]; ok {
			s.lineIn[e.Key] = e.LineIn
			if err := s.readSection(p, e.Value); err != nil {
				return fault.New(fault.Config, "%s: %w", s.placeOf(err), err)
			}
			continue
		}
		v := s.byKey[e.Key]
		if v == nil {
			return fault.New(fault.Config, "%s:%d: %w", name, e.Line(), tomlfile.Unknown(e.Key, known))
		}
		if v.flag {
			continue
		}
		v.line = e.Line
		if err := v.fromFile(v.v, e.Value); err != nil {
			return fault.New(fault.Config, "%s: %w", s.where(v), err)
		}
	}
	return nil
}

// Texts returns the values of all options as a user would write them, or only of those
// that a running node can apply at once.
func (s *Set) Texts(live bool) map[string]string {
	out := map[string]string{}
	for _, v := range s.all {
		if v.Live || !live {
			out[v.Key] = text(v.v)
		}
	}
	return out
}

// Given returns the values of a table's options that the command line or the file sets, as
// a user would write them.
func (s *Set) Given(t Table) map[string]string {
	out := map[string]string{}
	for o := range t.All {
		if v := s.byKey[o.Key]; v != nil && (v.flag || v.line != nil) {
			out[v.Key] = text(v.v)
		}
	}
	return out
}

// Find returns an option by its name; nil: there is none.
func (s *Set) Find(key string) *Value { return s.byKey[key] }

// List returns the value of a list, each other value as one text, and nothing for no option.
func (v *Value) List() []string {
	if v == nil {
		return nil
	}
	if list, ok := v.v.Interface().([]string); ok {
		return slices.Clone(list)
	}
	return []string{text(v.v)}
}

// OnCommandLine returns the value of a list, or a text alone, that the command line set;
// nil: it did not.
func (s *Set) OnCommandLine(key string) []string {
	v := s.byKey[key]
	if v == nil || !v.flag {
		return nil
	}
	if text, ok := v.v.Interface().(string); ok {
		return []string{text}
	}
	list, _ := v.v.Interface().([]string)
	return list
}

// where returns the flag, or the file and line, that set the value.
func (s *Set) where(v *Value) string {
	switch {
	case v.flag:
		return "--" + v.Key
	case v.line != nil:
		return fmt.Sprintf("%s:%d: %s", s.file, v.line(), v.Key)
	case s.file != "":
		return s.file + ": " + v.Key
	}
	return v.Key
}

// Explain returns err in the words of the command line: if it is about one
// option, it names the file and the line, and the option.
func (s *Set) Explain(err error) error {
	if _, ok := errors.AsType[*sectionError](err); ok {
		return fault.New(fault.KindOf(err), "%s: %w", s.placeOf(err), err)
	}
	e := ErrorOf(err)
	if e == nil {
		return err
	}
	for _, v := range s.all {
		if v.Field == e.Field {
			return fault.New(fault.KindOf(err), "%s: %w", s.where(v), e.Err)
		}
	}
	return err
}

// Again copies the values that the command line set in given, another set of the
// same options.
func (s *Set) Again(given *Set) {
	for _, v := range s.all {
		if g := given.byKey[v.Key]; g != nil && g.flag {
			v.v.Set(g.v)
			v.flag = true
		}
	}
}

// Changes lists the options that have another value in next: those that a running
// node can apply, and those that wait for its next start.
func (s *Set) Changes(next *Set) (live, waiting []string) {
	for _, v := range s.all {
		n := next.byKey[v.Key]
		switch {
		case n == nil || text(n.v) == text(v.v):
		case v.Live:
			live = append(live, v.Key)
		default:
			waiting = append(waiting, v.Key)
		}
	}
	for name := range s.sections {
		if s.written[name] != next.written[name] {
			live = append(live, name)
		}
	}
	slices.Sort(live)
	slices.Sort(waiting)
	return live, waiting
}

// Usage returns the text of --help for the option. Package pflag adds Default.
func (v *Value) Usage() string {
	s := v.Help
	if v.Lines {
		s += "; may be repeated"
	}
	if v.Zero == "" {
		return s
	}
	switch v.v.Kind() {
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return s + " (0, the default: " + v.Zero + ")"
	}
	return s + " (default: " + v.Zero + ")"
}

// Limits describes the bounds of the value; empty: no bounds that matter in
// practice.
func (v *Value) Limits() string {
	show := func(n int64) string {
		switch v.v.Interface().(type) {
		case time.Duration:
			return brief(time.Duration(n))
		case uint64:
			if n%(1<<20) == 0 {
				return fmt.Sprintf("%d MiB", n>>20)
			}
		}
		return fmt.Sprint(n)
	}
	switch b := v.Bounds; {
	case b.Hi >= noLimit && b.Lo > 0:
		return "at least " + show(b.Lo)
	case b.Hi >= noLimit, b == Bounds{}:
		return ""
	default:
		return show(b.Lo) + " to " + show(b.Hi)
	}
}
