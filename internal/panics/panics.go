// Package panics is the last line of defence of goroutines that serve a peer: if a
// mistake of ours makes one panic, it ends what that goroutine owns, for example a
// circuit or a link, and not the whole process.
//
// It excuses no mistake. Each panic is counted (chive_panics_total), the stack of each
// place is logged once, and the process reports panics when it ends. In tests a panic
// continues as if this package did not exist.
//
// The package promises:
//   - The goroutine's own deferred functions have run before the owner is closed:
//     so nothing is closed under a lock of this goroutine whose unlock is deferred,
//     and code that can panic runs under no other lock.
//   - The owner's closing function is called once with an error of kind
//     fault.Local. When it panics itself, that is counted as well, and what it left
//     undone stays so.
//   - What is logged names functions and lines of code, and of the panic's value
//     only a runtime error's text or a constant of ours: no argument, no address.
//
// It cannot promise that state is consistent which the panic left half changed. So the
// owner must own all state that the code changes: a reader that panics in a circuit's
// code closes the circuit, and one that panics in its own code closes the link. A
// fatal error of the runtime (a concurrent map write, a full stack, no memory) is not
// a panic, and ends the process.
//
// Every goroutine and timer of production code is started under this package; a test
// over the source (internal/rules/panics_test.go) checks that.
package panics

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"path"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/chivenet/chive/internal/fault"
)

// total counts the panics of the process; All roles in it share it, because a panic is
// a mistake of the program.
var total atomic.Uint64

// Total returns how many panics this process has contained. Every metrics page must
// show it, with the name and help text below. It should be zero.
func Total() uint64 { return total.Load() }

// Logged is the beginning of each log line with the stack of a panic.
const Logged = "a panic was contained"

// The metric's name and help text.
const (
	Metric = "chive_panics_total"
	Help   = "Panics that ended a circuit, a link or a request; each is a mistake in Chive: please report it."
)

// Err returns an error if the process has contained panics. Call it at the end of the
// process.
func Err() error {
	if n := Total(); n > 0 {
		return fault.New(fault.Local, "%d panics were contained: each is a mistake in Chive, and the log has its stack: please report it", n)
	}
	return nil
}

// Contain returns f with the last line of defence: if f panics, closeOwner is called
// with an internal error. closeOwner may be nil if no goroutine waits for f and f's
// own deferred functions close what it owns.
//
//go:noinline
func Contain(log *slog.Logger, closeOwner func(error), f func()) func() {
	return func() {
		defer Recover(log, closeOwner)
		f()
	}
}

// Keep is Contain for a loop that its role cannot do without: if f panics, rest is
// called, and then f again, unless rest returns false because there is no more to do.
func Keep(log *slog.Logger, rest func() bool, f func()) func() {
	return func() {
		for again := true; again; {
			again = false
			Contain(log, func(error) { again = rest() }, f)()
		}
	}
}

// Recover is Contain for a function that defers it. It must be the first deferred
// call.
func Recover(log *slog.Logger, closeOwner func(error)) {
	if v := recover(); v != nil {
		contained(log, closeOwner, v)
	}
}

// contain keeps panics from continuing in a test, too.
var contain atomic.Bool

// underTest reports whether this program is a test: panics go on there after they were counted. It asks as
// testing.Testing does, without package testing in every program.
func underTest() bool { return flag.Lookup("test.v") != nil }

// Expect makes this package contain panics, as it does outside tests, with new counts
// and a new log, until end is called. end returns the number of panics. It is for
// tests of the state after a panic: see panicstest.
func Expect() (end func() uint64) {
	contained, before, logged := contain.Swap(true), total.Swap(0), places.swap(nil)
	return func() uint64 {
		contain.Store(contained)
		places.swap(logged)
		return total.Swap(before)
	}
}

func contained(log *slog.Logger, closeOwner func(error), v any) {
	total.Add(1)
	if underTest() && !contain.Load() {
		panic(v)
	}
	frames := stack()
	where := "an unknown place"
	if len(frames) > 0 {
		where = frames[0]
	}
	if places.first(where) {
		logger(log).Error(Logged+": this is a mistake in Chive, please report it", "panic", describe(v, where), "stack", strings.Join(frames, " < "))
	}
	if closeOwner == nil {
		return
	}
	defer Recover(log, nil)
	closeOwner(fault.New(fault.Local, "internal error in %s", where))
}

// logger returns a logger that writes errors. A panic must be seen even if a program
// that embeds Chive asked for no log.
func logger(log *slog.Logger) *slog.Logger {
	if log == nil || !log.Enabled(context.Background(), slog.LevelError) {
		return slog.Default()
	}
	return log
}

// module is the prefix of the names of our own functions.
const module = "github.com/chivenet/chive"

// describe returns a text for a panic's value that cannot contain data of a peer: the
// text of a runtime error, or a string with which our own code panicked.
func describe(v any, where string) string {
	switch v := v.(type) {
	case runtime.Error:
		return v.Error()
	case string:
		if strings.HasPrefix(where, module) {
			return v
		}
	}
	return fmt.Sprintf("a %T", v)
}

// maxFrames bounds the stack that is logged.
const maxFrames = 32

// stack returns the functions that were running when the newest panic began, the
// innermost first, each with its line. It is called while that panic's deferred
// function runs.
func stack() []string {
	pc := make([]uintptr, 2*maxFrames)
	frames := runtime.CallersFrames(pc[:runtime.Callers(2, pc)])
	var out []string
	for panicked := false; ; {
		f, more := frames.Next()
		switch {
		case f.Function == "runtime.gopanic":
			panicked = true
		case panicked && !strings.HasPrefix(f.Function, "runtime.") && len(out) < maxFrames:
			out = append(out, fmt.Sprintf("%s (%s:%d)", f.Function, path.Base(f.File), f.Line))
		}
		if !more {
			return out
		}
	}
}

// maxPlaces bounds how many places log their stacks.
const maxPlaces = 64

// seen holds the places whose stack was logged.
type seen struct {
	mu    sync.Mutex // guards what follows
	where map[string]bool
}

var places seen

// swap replaces the set of places, for Expect.
func (s *seen) swap(where map[string]bool) map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	where, s.where = s.where, where
	return where
}

// first reports whether nothing was logged for a place so far and the set is not full.
func (s *seen) first(where string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.where[where] || len(s.where) >= maxPlaces {
		return false
	}
	if s.where == nil {
		s.where = map[string]bool{}
	}
	s.where[where] = true
	return true
}
