package role

import (
	"bytes"
	"encoding"
	"log/slog"
	"reflect"
	"strings"

	"github.com/chivenet/chive/internal/fault"
)

// liveTag marks the fields of a configuration that may change while its role
// runs: `reload:"live"`.
const liveTag = "reload"

// CheckReload reports, by their names, the fields without the tag in which next
// differs from the running configuration.
func CheckReload[C any](running, next *C) error {
	a, b := reflect.ValueOf(running).Elem(), reflect.ValueOf(next).Elem()
	var names []string
	for i := range a.NumField() {
		if f := a.Type().Field(i); f.Tag.Get(liveTag) == "" && !equal(a.Field(i).Interface(), b.Field(i).Interface()) {
			names = append(names, f.Name)
		}
	}
	if names == nil {
		return nil
	}
	return fault.New(fault.Config, "reload: %s: this cannot change while it runs", strings.Join(names, ", "))
}

// KeepFixed sets the fields of next without the tag to their values in the
// running configuration.
func KeepFixed[C any](running, next *C) {
	a, b := reflect.ValueOf(running).Elem(), reflect.ValueOf(next).Elem()
	for i := range a.NumField() {
		if a.Type().Field(i).Tag.Get(liveTag) == "" {
			b.Field(i).Set(a.Field(i))
		}
	}
}

// equal compares two values of a field: networks by their text, loggers and the values of an
// interface by their identity; an empty list equals nil.
func equal(a, b any) bool {
	switch x := a.(type) {
	case *slog.Logger:
		return x == b.(*slog.Logger)
	case encoding.TextMarshaler:
		if v := reflect.ValueOf(a); v.Kind() == reflect.Pointer {
			if w := reflect.ValueOf(b); v.IsNil() || w.IsNil() {
				return v.IsNil() && w.IsNil()
			}
			p, errP := x.MarshalText()
			q, errQ := b.(encoding.TextMarshaler).MarshalText()
			return errP == nil && errQ == nil && bytes.Equal(p, q)
		}
	}
	if v := reflect.ValueOf(a); v.Kind() == reflect.Slice || v.Kind() == reflect.Map {
		if v.Len() == 0 {
			return reflect.ValueOf(b).Len() == 0
		}
	}
	if t := reflect.TypeOf(a); t != nil && t.Kind() == reflect.Map && t.Elem().Kind() == reflect.Interface {
		return sameValues(reflect.ValueOf(a), reflect.ValueOf(b))
	}
	return reflect.DeepEqual(a, b)
}

// sameValues compares maps of values of the program's own, such as transports, by their identity.
// Of a function, or what has one in it, only the type can be compared.
func sameValues(a, b reflect.Value) bool {
	if a.Len() != b.Len() {
		return false
	}
	for it := a.MapRange(); it.Next(); {
		other := b.MapIndex(it.Key())
		if !other.IsValid() {
			return false
		}
		x, y := it.Value().Elem(), other.Elem()
		switch {
		case !x.IsValid() || !y.IsValid():
			if x.IsValid() != y.IsValid() {
				return false
			}
		case x.Type() != y.Type() || x.Comparable() && y.Comparable() && !x.Equal(y):
			return false
		}
	}
	return true
}
