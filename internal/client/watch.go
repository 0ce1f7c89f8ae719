package client

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/cbt"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/stream"
)

// Watcher hears what the owner of this machine may learn of a client through a control port: also where
// streams go, which Hooks and the events of package chive never tell. Its functions are called from many
// goroutines, and must not block. Any may be nil.
type Watcher struct {
	Circuit   func(CircuitReport)
	Stream    func(StreamReport)
	Link      func(channel.LinkReport)
	Directory func(now, before *netdir.Directory)
	BuildTime func(cbt.Status, bool) // true: they are learned anew
}

// watchers are who watches a client.
type watchers struct {
	mu  sync.Mutex // held while the list changes
	all atomic.Pointer[[]*Watcher]
}

// Watch has w hear what happens from now on. stop ends that; calls that are under way may still come.
func (c *Client) Watch(w *Watcher) (stop func()) {
	c.watch.change(func(all []*Watcher) []*Watcher { return append(all, w) })
	return func() {
		c.watch.change(func(all []*Watcher) []*Watcher {
			return slices.DeleteFunc(all, func(o *Watcher) bool { return o == w })
		})
	}
}

func (s *watchers) change(how func([]*Watcher) []*Watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := how(slices.Clone(s.list()))
	s.all.Store(&next)
}

func (s *watchers) list() []*Watcher {
	if l := s.all.Load(); l != nil {
		return *l
	}
	return nil
}

func (s *watchers) circuit(r CircuitReport) {
	for _, w := range s.list() {
		if w.Circuit != nil {
			w.Circuit(r)
		}
	}
}

func (s *watchers) stream(r StreamReport) {
	for _, w := range s.list() {
		if w.Stream != nil {
			w.Stream(r)
		}
	}
}

func (s *watchers) link(r channel.LinkReport) {
	for _, w := range s.list() {
		if w.Link != nil {
			w.Link(r)
		}
	}
}

func (s *watchers) directory(now, before *netdir.Directory) {
	for _, w := range s.list() {
		if w.Directory != nil {
			w.Directory(now, before)
		}
	}
}

func (s *watchers) buildTime(t cbt.Status, anew bool) {
	for _, w := range s.list() {
		if w.BuildTime != nil {
			w.BuildTime(t, anew)
		}
	}
}

// Router is a relay of a circuit.
type Router struct {
	ID   ident.RSAID
	Name string // its nickname; empty: unknown
}

// Purpose is what a circuit is for.
type Purpose uint8

// The purposes.
const (
	ForStreams    Purpose = iota // streams to exits
	ForOnions                    // onion services
	ForDirectory                 // one hop, to a directory
	ForSet                       // a leg of a conflux set that is not joined yet
	InSet                        // a leg of a conflux set
	ForController                // only what a controller attaches
)

// String returns a word for people.
func (p Purpose) String() string {
	return [...]string{"streams", "onions", "directory", "conflux leg", "conflux", "controller"}[p]
}

// CircuitStep is what has happened to a circuit.
type CircuitStep uint8

// The steps.
const (
	CircuitLaunched CircuitStep = iota
	CircuitExtended             // by one hop
	CircuitBuilt                // all hops are there
	CircuitFailed               // it never came to be built
	CircuitClosed
	CircuitRepurposed // its purpose has changed
)

// CircuitReport is a circuit as it is after a step.
type CircuitReport struct {
	ID      uint64
	Step    CircuitStep
	Path    []Router // the hops that are there, the nearest first
	Purpose Purpose
	Before  Purpose // of CircuitRepurposed
	Stable  bool    // it was built of relays with the flag Stable
	Created time.Time
	Err     error // why it failed, or was closed by others; nil: this client closed it
	Hops    []HopProtection
	Carried circuit.Carried // of a circuit that is over, while that was counted: see Client.CountCells
}

// StreamStep is what has happened to a stream.
type StreamStep uint8

// The steps.
const (
	StreamNew    StreamStep = iota
	StreamWaits             // for a controller to attach it
	StreamSent              // the request was sent on a circuit
	StreamMapped            // the destination is another one: the answer of the exit, or a rule
	StreamOpened            // it carries bytes
	StreamDetach            // the circuit failed it, and another one may be tried
	StreamFailed            // it never came to be open
	StreamClosed            // it is over, whether or not it was open
)

// StreamReport is a stream or a lookup as it is after a step.
type StreamReport struct {
	ID, Circuit   uint64 // 0: none
	Step          StreamStep
	Host          string // the destination
	Port          uint16
	From          stream.Origin // who asked
	Lookup        bool
	ByExit        bool // of StreamMapped: the exit told it
	Err           error
	Read, Written uint64
}
