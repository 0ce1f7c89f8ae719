package options

import (
	"encoding/csv"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/tomlfile"
)

// NotOneOf returns the error for a value that is none of the words: it lists them, and says
// which one was probably meant.
func NotOneOf(value string, words []string) error {
	if near := tomlfile.Nearest(value, words); near != "" && value != "" {
		return fault.New(fault.Config, "%q is not %s; did you mean %q?", value, orList(words), near)
	}
	return fault.New(fault.Config, "%q is not %s", value, orList(words))
}

// Words returns the values that the option can have, if they are few; an empty one, which is
// the option left out, is not among them.
func (o *Option) Words() []string {
	return slices.DeleteFunc(slices.Clone(o.OneOf), func(s string) bool { return s == "" })
}

// Word is a flag whose value is one of several words. It is a pflag.Value.
type Word struct {
	At *string
	Of []string
}

// String returns the value.
func (w Word) String() string {
	if w.At == nil {
		return "" // pflag makes one, to compare with
	}
	return *w.At
}

// Set takes a value from the command line.
func (w Word) Set(s string) error {
	if !slices.Contains(w.Of, s) {
		return NotOneOf(s, w.Of)
	}
	*w.At = s
	return nil
}

// Type names the type as package pflag does.
func (w Word) Type() string { return "string" }

// Words returns the values that the flag can have.
func (w Word) Words() []string { return w.Of }

// WordList is a flag with several of the words, between commas. It is a pflag.Value.
type WordList struct {
	At *[]string
	Of []string
	// Base returns the word in a value that says more; nil: a value is a word.
	Base func(string) string

	set bool // the command line gave some: the default is gone
}

// String returns the values as package pflag writes lists.
func (w *WordList) String() string {
	if w.At == nil || len(*w.At) == 0 {
		return ""
	}
	return "[" + strings.Join(*w.At, ",") + "]"
}

// Set takes values from the command line.
func (w *WordList) Set(s string) error {
	all, err := csv.NewReader(strings.NewReader(s)).Read()
	if err != nil {
		return fmt.Errorf("%q is not words between commas: %s", s, orList(w.Of))
	}
	for _, v := range all {
		word := v
		if w.Base != nil {
			word = w.Base(v)
		}
		if !slices.Contains(w.Of, word) {
			return NotOneOf(word, w.Of)
		}
	}
	if !w.set {
		*w.At = nil
	}
	w.set = true
	*w.At = append(*w.At, all...)
	return nil
}

// Type names the type as package pflag does.
func (w *WordList) Type() string { return "stringSlice" }

// Words returns the values that the flag can have.
func (w *WordList) Words() []string { return w.Of }

// Level is a flag with the level of a log. It is a pflag.Value.
type Level struct{ At *slog.Level }

// String returns the name of a level, or nothing for one that is none's.
func (l Level) String() string {
	if l.At == nil || *l.At > slog.LevelError {
		return ""
	}
	return strings.ToLower(l.At.String())
}

// Set takes a value from the command line.
func (l Level) Set(s string) error { return new(Option).parse(reflect.ValueOf(l.At).Elem(), s) }

// Type names the type as package pflag does; the default value has no quotes.
func (l Level) Type() string { return "text" }

// Words returns the values that the flag can have.
func (l Level) Words() []string { return Levels }
