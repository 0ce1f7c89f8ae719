// Package options holds every option of a client, a relay and an authority: one
// row in one table has its name, its bounds, its default value and its help text.
// Flags, configuration files, the checks of public Configs, manual pages and
// docs/options.md all come from the rows.
//
// To add an option, write a row, the field that it names, and a test of its
// effect. The field has the tag reload:"live" if a running node can apply a new
// value at once.
package options

import (
	"encoding"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// Option is a row: one option. Its type is that of the field: string, bool, int,
// uint64 (a number of bytes, perhaps with a unit), time.Duration, []string, map[string]int32, or a type that reads its own
// text (encoding.TextUnmarshaler).
type Option struct {
	Key   string // its name in files, and, with "--", on the command line
	Field string // the field of the structure

	// Default is the default value as a user would write it. Empty: Go's zero value.
	Default string
	// Zero says what 0, or an empty value, stands for. 0 is then allowed besides Bounds.
	Zero   string
	Bounds Bounds // of a number or a duration; the zero Bounds is no bound
	// OneOf is all values of a string, and the names of a type that reads its own text.
	OneOf []string
	// Each checks each entry of a list, or a string that is not empty.
	Each func(string) error

	// Lines says that a flag gives one entry of a list, which may contain commas,
	// and may be repeated. A flag of another list may give several entries,
	// separated by commas.
	Lines bool
	// Help says in a few words what the option does. The name of its value stands
	// in back quotes: "`FILE` of the log".
	Help string
}

// Bounds are the least and the greatest value, both allowed.
type Bounds struct{ Lo, Hi int64 }

// noLimit is greater than every value of an option.
const noLimit = math.MaxInt64 / 2

// Group is options that belong together, under a heading.
type Group struct {
	Title   string
	Options []Option
}

// Table is the options of one structure.
type Table []Group

// All calls yield for each option.
func (t Table) All(yield func(*Option) bool) {
	for i := range t {
		for j := range t[i].Options {
			if !yield(&t[i].Options[j]) {
				return
			}
		}
	}
}

// Error is a mistake in the value of one option. For a Go program it names the
// field; for the command line, Set.Explain names the file and the line instead.
type Error struct {
	Field string
	Err   error
}

func (e *Error) Error() string { return e.Field + ": " + e.Err.Error() }

// Unwrap returns the mistake itself.
func (e *Error) Unwrap() error { return e.Err }

// Wrong returns the error for the value of a field; format and args are fmt.Errorf's.
func Wrong(field, format string, args ...any) error {
	return fault.Wrap(fault.Config, &Error{field, fmt.Errorf(format, args...)})
}

// In returns err, with its kind, as a mistake in the value of a field.
func In(field string, err error) error {
	return fault.Wrap(fault.KindOf(err), &Error{field, err})
}

// Check reports the first value of a structure that its rows do not allow. cfg points to
// the structure.
func (t Table) Check(cfg any) error {
	v := reflect.ValueOf(cfg).Elem()
	for o := range t.All {
		if err := o.check(o.in(v)); err != nil {
			return fault.Wrap(fault.Config, &Error{o.Field, err})
		}
	}
	return nil
}

// in returns the option's field in a structure.
func (o *Option) in(v reflect.Value) reflect.Value {
	f := v.FieldByName(o.Field)
	if !f.IsValid() {
		panic("options: no field " + o.Field + " in " + v.Type().String())
	}
	return f
}

// check reports why a value is not allowed.
func (o *Option) check(v reflect.Value) error {
	switch x := v.Interface().(type) {
	case time.Duration:
		return o.bounded(int64(x), func(n int64) any { return time.Duration(n) })
	case int:
		return o.bounded(int64(x), func(n int64) any { return n })
	case uint64:
		return o.bounded(int64(min(x, math.MaxInt64)), func(n int64) any { return n })
	case string:
		if len(o.OneOf) > 0 && !slices.Contains(o.OneOf, x) {
			return NotOneOf(x, o.OneOf)
		}
		if x != "" && o.Each != nil {
			return o.Each(x)
		}
	case []string:
		for i, s := range x {
			if o.Each == nil {
				break
			}
			if err := o.Each(s); err != nil && len(x) > 1 {
				return fmt.Errorf("entry %d: %w", i+1, err)
			} else if err != nil {
				return err
			}
		}
	case encoding.TextMarshaler:
		b, err := x.MarshalText()
		if err != nil || unmarshaler(reflect.New(v.Type())).UnmarshalText(b) != nil {
			return fmt.Errorf("the value %#v is none of its type's constants", x)
		}
	}
	return nil
}

// bounded checks a number against the bounds; show formats them for the error.
func (o *Option) bounded(n int64, show func(int64) any) error {
	switch b := o.Bounds; {
	case b == Bounds{}, n == 0 && o.Zero != "", n >= b.Lo && n <= b.Hi:
		return nil
	case b.Hi >= noLimit && n < b.Lo:
		return fmt.Errorf("%v is below %v, the least", show(n), show(b.Lo))
	default:
		return fmt.Errorf("%v is not from %v to %v", show(n), show(b.Lo), show(b.Hi))
	}
}

// orList joins the values of an option for an error. An empty one, which is the option left
// out, says nothing there.
func orList(names []string) string {
	if names[0] == "" {
		names = names[1:]
	}
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

func unmarshaler(p reflect.Value) encoding.TextUnmarshaler {
	u, ok := p.Interface().(encoding.TextUnmarshaler)
	if !ok {
		panic(fmt.Sprint("options: no option can be a ", p.Type().Elem()))
	}
	return u
}

// ErrorOf returns the Error in the chain of err, or nil.
func ErrorOf(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return nil
}
