package ident

import (
	"fmt"
	"log/slog"
)

// Secret wraps a value (an address, a host name, an onion name) that must not
// reach a log. All formatting prints its redacted form; Value returns the value
// to code that needs it.
type Secret[T any] struct{ v T }

// Hide wraps v.
func Hide[T any](v T) Secret[T] { return Secret[T]{v} }

// Value returns the wrapped value.
func (s Secret[T]) Value() T { return s.v }

// String returns "[scrubbed]", as C tor's SafeLogging does.
func (s Secret[T]) String() string { return "[scrubbed]" }

// GoString returns "[scrubbed]".
func (s Secret[T]) GoString() string { return "[scrubbed]" }

// Format writes "[scrubbed]" for every verb.
func (s Secret[T]) Format(f fmt.State, _ rune) { fmt.Fprint(f, "[scrubbed]") }

// LogValue returns "[scrubbed]".
func (s Secret[T]) LogValue() slog.Value { return slog.StringValue("[scrubbed]") }
