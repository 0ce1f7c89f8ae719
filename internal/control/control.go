// Package control serves Tor's control protocol (control-spec) to programs of this machine: their
// authentication, their commands, and the events that they ask for. What commands do is the business of an
// Engine.
package control

import (
	"context"
	"iter"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/listen"
	"github.com/chivenet/chive/internal/panics"
)

// Engine is what a server controls. Its methods may be called from several goroutines. An error that is no
// *ctlwire.Error becomes one of code 551.
type Engine interface {
	// Info answers GETINFO for one key. An error of code 552 says that there is no such key, others that it
	// has no value now.
	Info(key string) (Answer, error)
	// Signal does what one of Signals says, after the reply was written.
	Signal(name string)
	// Get answers GETCONF for one name. An error of code 552 says that there is no such option.
	Get(name string) ([]Line, error)
	// Set answers SETCONF, and with reset RESETCONF: an option without a value goes back to its default
	// value. It obeys all or nothing.
	Set(changes []Line, reset bool) error
	// Load takes a whole torrc instead of the present options, and Save writes the present ones; force: even
	// if the file includes others.
	Load(text []byte) error
	Save(force bool) error
	// Disowned is called when a connection that had taken ownership has ended.
	Disowned()
	Onions
}

// Answer is the value of a key: a text, or, if Lines is not nil, many lines, which are written as they come.
type Answer struct {
	Text  string
	Lines iter.Seq[string]
}

// Line is an option with one of its values. HasValue is false if the option has none.
type Line struct {
	Key, Value string
	HasValue   bool
}

// Config says how a server works.
type Config struct {
	Engine   Engine
	Steering Steering
	Log      *slog.Logger
	Version  string      // of C tor, whose protocol this is
	Secrets  func() Auth // by which controllers show who they are, at the moment
}

// Bounds of what controllers can make a server hold. They are programs of this machine, but one may be a
// stranger's, or a browser that a web page steers.
const (
	maxSessions   = 64
	maxStrangers  = 16               // of these, not authenticated; a new one makes the oldest go
	strangerTime  = 10 * time.Second // to authenticate
	strangerInput = 16 << 10         // of one command before that, in bytes
	maxQueued     = 4 << 20          // bytes of events that a session has not read
	writeTime     = time.Minute      // for a controller to read what one write takes
)

// Server serves controllers. Close ends it.
type Server struct {
	cfg    Config
	wanted [len(eventNames)]atomic.Int32 // sessions that want an event
	wg     sync.WaitGroup
	onions onionList

	mu       sync.Mutex
	sessions []*session // guarded by mu: the oldest first
	closed   bool       // guarded by mu
}

// New returns a server that has no port yet.
func New(cfg Config) *Server { return &Server{cfg: cfg} }

// Door is what a port demands of controllers.
type Door struct {
	// Admit returns an error for connections that are closed at once. It is asked again where no secret is needed:
	// there may have been one when the connection came.
	Admit func(net.Conn) error
	// Rules returns what controllers may do now; nil: all. It is asked for each command and each event.
	Rules func() *Rules
	// Secrets are those of the port, in the place of the server's; nil: it has no others.
	Secrets func() Auth
	// Own says that Admit lets in this user and root alone: strangers elsewhere keep nobody off this port.
	Own bool

	at string // the listener's address
}

// Serve takes connections from l until ctx ends or l is closed.
func (s *Server) Serve(ctx context.Context, l net.Listener, d Door) error {
	d.at = l.Addr().String()
	return listen.Serve(ctx, l, s.cfg.Log, "control", func(c net.Conn) {
		if err := d.Admit(c); err != nil {
			s.cfg.Log.Warn("a connection to the control port was refused", "err", err)
			c.Close()
			return
		}
		s.take(c, d)
	})
}

// take begins a session, or closes the connection if there are too many.
func (s *Server) take(c net.Conn, d Door) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.roomLocked(d) {
		c.Close()
		return
	}
	one := newSession(s, c, d)
	s.sessions = append(s.sessions, one)
	s.wg.Go(panics.Contain(s.cfg.Log, nil, func() {
		defer s.leave(one)
		one.run()
	}))
	s.wg.Go(panics.Contain(s.cfg.Log, func(error) { one.close() }, one.tellEvents))
}

// roomLocked makes room for a session at a port, and reports whether there is some. Whoever is not authenticated yet
// makes room, the oldest first: a controller that knows the secret needs a moment only. It is one at the port with
// the most of them, and at the newcomer's own port unless that has fewer still when it has come in: strangers at a TCP port do
// not keep anybody off a socket that they cannot open, and close nobody's connection to it. Sessions that have ended are in
// the list for a moment more, and take nobody's place; the last of the list are for ports of one's own.
func (s *Server) roomLocked(d Door) bool {
	at, bound := d.at, 2*maxSessions
	if !d.Own {
		bound -= maxStrangers
	}
	if s.closed || len(s.sessions) >= bound {
		return false
	}
	living, strangers := 0, 0
	count, oldest := map[string]int{}, map[string]*session{}
	for _, one := range s.sessions {
		if one.ended() {
			continue
		}
		if living++; one.known.Load() {
			continue
		}
		strangers++
		if count[one.door.at]++; oldest[one.door.at] == nil {
			oldest[one.door.at] = one
		}
	}
	full := living >= maxSessions
	if strangers == 0 || !full && strangers < maxStrangers {
		return !full
	}
	most := at
	for port, n := range count {
		open := d.Own && !oldest[port].door.Own // others can keep that one full
		if n > count[most] && (open || n > count[at]+1) {
			most = port
		}
	}
	if oldest[most] == nil {
		return false
	}
	oldest[most].close()
	return true
}

func (s *Server) leave(one *session) {
	one.close()
	one.want(nil)
	one.endOnions()
	if closed := s.remove(one); one.owner.Load() && !closed {
		s.cfg.Engine.Disowned()
	}
}

// remove takes a session off the list, and reports whether the server is closed.
func (s *Server) remove(one *session) (closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions = slices.DeleteFunc(s.sessions, func(other *session) bool { return other == one })
	return s.closed
}

// Close ends all sessions and waits for them. The listeners must be closed before.
func (s *Server) Close() {
	s.cut()
	s.wg.Wait()
}

func (s *Server) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, one := range s.sessions {
		one.close()
	}
}
