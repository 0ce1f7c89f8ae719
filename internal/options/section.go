package options

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/tomlfile"
)

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
				return fmt.Errorf("%s: %w", Nth(p.Section, i), tomlfile.Unknown(key, known))
			}
			if err := v.fromFile(v.v, table[key]); err != nil {
				return fmt.Errorf("%s: %s: %w", Nth(p.Section, i), key, err)
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
		return fault.New(fault.KindOf(err), "%s: %w", Nth(section, i), err)
	}
	for o := range t.All {
		if o.Field == e.Field {
			return fault.New(fault.KindOf(err), "%s: %s: %w", Nth(section, i), o.Key, e.Err)
		}
	}
	return err
}
