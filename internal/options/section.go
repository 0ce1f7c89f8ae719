package options

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/tomlfile"
)

// sectionError is a mistake in one table of a section.
type sectionError struct {
	section string
	i       int    // of the table, from 0
	key     string // whose line has the mistake; empty: it is about no option alone
	err     error
}

func (e *sectionError) Error() string { return Nth(e.section, e.i) + ": " + e.err.Error() }

func (e *sectionError) Unwrap() error { return e.err }

// placeOf returns where in the file a section's mistake is.
func (s *Set) placeOf(err error) string {
	if e, ok := errors.AsType[*sectionError](err); ok && s.lineIn[e.section] != nil {
		if n := s.lineIn[e.section](e.i, e.key); n > 0 {
			return fmt.Sprintf("%s:%d", s.file, n)
		}
	}
	return s.file
}

// readSection reads the tables of a section.
func (s *Set) readSection(p Part, value any) error {
	tables, ok := value.([]map[string]any)
	if !ok {
		return fmt.Errorf("%s: %s, not tables: each begins with a line [[%s]]", p.Section, typeName(value), p.Section)
	}
	known := []string{}
	for o := range p.Table.All {
		known = append(known, o.Key)
	}
	for i, table := range tables {
		one := Bind(Part{Table: p.Table, Of: p.Add()})
		for _, key := range slices.Sorted(maps.Keys(table)) {
			v := one.byKey[key]
			if v == nil {
				return &sectionError{p.Section, i, key, tomlfile.Unknown(key, known)}
			}
			if err := v.fromFile(v.v, table[key]); err != nil {
				return &sectionError{p.Section, i, key, fmt.Errorf("%s: %w", key, err)}
			}
		}
		s.written[p.Section] += fmt.Sprintln(table) // which sorts keys
	}
	return nil
}

// Nth names a table of a section for errors. Tables count from 0.
func Nth(section string, i int) string { return fmt.Sprintf("[[%s]] number %d", section, i+1) }

// ExplainIn returns err in the words of the file, if it is about an option of a section's
// table.
func (t Table) ExplainIn(section string, i int, err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return fault.Wrap(fault.KindOf(err), &sectionError{section, i, "", err})
	}
	for o := range t.All {
		if o.Field == e.Field {
			return fault.Wrap(fault.KindOf(err), &sectionError{section, i, o.Key, fmt.Errorf("%s: %w", o.Key, e.Err)})
		}
	}
	return err
}
