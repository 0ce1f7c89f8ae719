package options

import (
	"encoding"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/quantity"
)

// text returns a value as a user would write it on the command line.
func text(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case encoding.TextMarshaler:
		b, err := x.MarshalText()
		if err != nil {
			return err.Error()
		}
		return string(b)
	case []string:
		return "[" + joinComma(x) + "]"
	case map[string]int32:
		var all []string
		for _, k := range slices.Sorted(maps.Keys(x)) {
			all = append(all, fmt.Sprintf("%s=%d", k, x[k]))
		}
		return "[" + joinComma(all) + "]"
	default:
		return fmt.Sprint(x)
	}
}

// parse reads a text into a value. For a list or a map, it adds entries.
func (o *Option) parse(v reflect.Value, s string) error {
	switch v.Interface().(type) {
	case string:
		if len(o.OneOf) > 0 && !slices.Contains(o.OneOf, s) {
			return NotOneOf(s, o.OneOf)
		}
		v.SetString(s)
	case bool:
		b, err := strconv.ParseBool(s)
		if err != nil {
			return fmt.Errorf("%q is not true or false", s)
		}
		v.SetBool(b)
	case int:
		n, err := strconv.ParseInt(s, 0, v.Type().Bits())
		if err != nil {
			return o.notNumber(s)
		}
		v.SetInt(n)
	case uint64:
		n, err := quantity.Bytes(s)
		if err != nil {
			return err
		}
		v.SetUint(n)
	case time.Duration:
		d, err := quantity.Duration(s)
		if err != nil {
			return err
		}
		v.SetInt(int64(d))
	case slog.Level:
		if err := unmarshaler(v.Addr()).UnmarshalText([]byte(s)); err != nil {
			if of := levelOfTor[strings.ToLower(s)]; of != "" {
				return fmt.Errorf("%q is not %s; %s", s, orList(Levels), of)
			}
			return NotOneOf(s, Levels)
		}
	case []string:
		entries := []string{s}
		if !o.Lines {
			var err error
			if entries, err = splitComma(s); err != nil {
				return err
			}
		}
		v.Set(reflect.AppendSlice(v, reflect.ValueOf(entries)))
	case map[string]int32:
		entries, err := splitComma(s)
		if err != nil {
			return err
		}
		return addNumbers(v, entries)
	default:
		err := unmarshaler(v.Addr()).UnmarshalText([]byte(s))
		if err != nil && len(o.OneOf) > 0 {
			return NotOneOf(s, o.OneOf)
		}
		return err
	}
	return nil
}

// levelOfTor says of a level that only C tor has which one comes near it.
var levelOfTor = map[string]string{"notice": "C tor's notice is info here", "err": "C tor's err is error here"}

// Levels are the names of a slog.Level.
var Levels = []string{"debug", "info", "warn", "error"}

// notNumber returns the error for a text that is no whole number, or none that a program can
// count to.
func (o *Option) notNumber(s string) error {
	if b := o.Bounds; b != (Bounds{}) && b.Hi < noLimit {
		return fmt.Errorf("%q is not a whole number from %d to %d", s, b.Lo, b.Hi)
	}
	return fmt.Errorf("%q is not a whole number", s)
}

// addNumbers adds entries such as "NAME=5" to a map.
func addNumbers(v reflect.Value, entries []string) error {
	m := map[string]int32{}
	maps.Copy(m, v.Interface().(map[string]int32))
	for _, e := range entries {
		name, number, ok := strings.Cut(e, "=")
		n, err := strconv.ParseInt(number, 10, 32)
		if !ok || name == "" || err != nil {
			return fmt.Errorf("%q is not NAME=NUMBER, with a number of 32 bits", e)
		}
		m[name] = int32(n)
	}
	v.Set(reflect.ValueOf(m))
	return nil
}

// splitComma reads entries between commas; quotes around an entry keep a comma inside it. Quotes
// that begin later belong to the entry, as in unix:"/run/my socks".
func splitComma(s string) ([]string, error) {
	if s == "" {
		return []string{}, nil
	}
	entries, err := csv.NewReader(strings.NewReader(s)).Read()
	if errors.Is(err, csv.ErrBareQuote) {
		r := csv.NewReader(strings.NewReader(s))
		r.LazyQuotes = true
		entries, err = r.Read()
	}
	if err == io.EOF {
		return []string{}, nil
	}
	return entries, err
}

// joinComma is the inverse of splitComma.
func joinComma(entries []string) string {
	var b strings.Builder
	w := csv.NewWriter(&b)
	_ = w.Write(entries) // it writes to memory, and no entry is invalid
	w.Flush()
	return strings.TrimSuffix(b.String(), "\n")
}

// fromFile sets a value to x, which comes from a TOML file. The types must match:
// a string in place of a number is probably a mistake.
func (o *Option) fromFile(v reflect.Value, x any) error {
	switch v.Interface().(type) {
	case []string:
		entries, err := stringList(x)
		if err != nil {
			return err
		}
		v.Set(reflect.ValueOf(entries))
		return nil
	case map[string]int32:
		entries, err := numberList(x)
		if err != nil {
			return err
		}
		v.SetZero()
		return addNumbers(v, entries)
	}
	want := "string" // of durations and names too
	switch v.Interface().(type) {
	case bool:
		want = "boolean"
	case int:
		want = "integer"
	case uint64: // of bytes
		if want = "integer"; typeName(x) == "string" {
			want = "string"
		}
	case time.Duration:
		if n, ok := x.(int64); ok {
			return fmt.Errorf("%d has no unit: write \"%ds\" for seconds", n, n)
		}
	}
	if got := typeName(x); got != want {
		return fmt.Errorf("%v: %s, not %s", x, got, want)
	}
	return o.parse(v, fmt.Sprint(x))
}

// stringList reads a list of strings; one string alone is a list of one.
func stringList(x any) ([]string, error) {
	switch x := x.(type) {
	case string:
		return []string{x}, nil
	case []any:
		out := make([]string, len(x))
		for i, e := range x {
			s, ok := e.(string)
			if !ok {
				return nil, fmt.Errorf("entry %d: %s, not string", i+1, typeName(e))
			}
			out[i] = s
		}
		return out, nil
	}
	return nil, fmt.Errorf("%s, not a list of strings", typeName(x))
}

// numberList reads a table of numbers, or strings such as "NAME=5".
func numberList(x any) ([]string, error) {
	table, ok := x.(map[string]any)
	if !ok {
		return stringList(x)
	}
	var out []string
	for _, k := range slices.Sorted(maps.Keys(table)) {
		n, ok := table[k].(int64)
		if !ok {
			return nil, fmt.Errorf("%s: %s, not integer", k, typeName(table[k]))
		}
		out = append(out, fmt.Sprintf("%s=%d", k, n))
	}
	return out, nil
}

func typeName(x any) string {
	switch x.(type) {
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
