// Package site serves the files of a folder over HTTP to the clients of an onion service: strangers, of
// whom nobody knows where they are.
//
// What it sends tells nothing of the machine but the files: no date, no time of a file, no name of a
// program, no path, and the same content types everywhere. It logs nothing of a request.
package site

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/panics"
)

// Times and bounds of a client. A request has to come through circuits, which can be slow.
const (
	headerTime = 30 * time.Second // for a request's header
	idleTime   = time.Minute      // between requests
	writeTime  = time.Minute      // for the next bytes of an answer, at most 32 KiB
	maxHeader  = 12 << 10         // bytes of a header, to which net/http adds 4096
)

// Server serves a folder, which can be another one from time to time.
type Server struct {
	log  *slog.Logger
	http http.Server

	mu     sync.Mutex
	folder *folder // guarded by mu; nil: closed
}

// Check reports what would keep a folder from being served.
func Check(dir string) error {
	f, err := openFolder(dir, Options{})
	if err != nil {
		return err
	}
	return f.release()
}

// New returns a server of the folder dir. log gets mistakes of our own.
func New(dir string, opt Options, log *slog.Logger) (*Server, error) {
	s := &Server{log: log}
	if err := s.Change(dir, opt); err != nil {
		return nil, err
	}
	s.http = http.Server{
		Handler: s.Handler(), ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		DisableGeneralOptionsHandler: true,                                                    // it knows another method
		ErrorLog:                     slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug), // it would tell of requests
	}
	return s, nil
}

// Change has the server serve the folder dir from now on. It opens the folder again if it is the same: another one may have its
// name now. After an error, nothing has changed.
func (s *Server) Change(dir string, opt Options) error {
	next, err := openFolder(dir, opt)
	if err != nil {
		return err
	}
	return s.take(next)
}

// take has the server use a folder, or none, and gives back the one before.
func (s *Server) take(next *folder) error {
	s.mu.Lock()
	old := s.folder
	s.folder = next
	s.mu.Unlock()
	if old == nil {
		return nil
	}
	return old.release()
}

// use returns the folder, for the caller to release; nil: the server is closed.
func (s *Server) use() *folder {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.folder != nil {
		s.folder.users.Add(1)
	}
	return s.folder
}

// Handler answers requests without the bounds of Serve.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.serve) }

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	defer panics.Recover(s.log, func(error) { refuse(w, http.StatusInternalServerError) })
	f := s.use()
	if f == nil {
		refuse(w, http.StatusServiceUnavailable)
		return
	}
	defer f.release() // an error says that it is closed
	f.ServeHTTP(w, r)
}

// Serve answers the requests on the connections of l until Close or until l fails. client tells the clients
// of connections apart. The error is nil after Close.
func (s *Server) Serve(l net.Listener, client func(net.Conn) uint64) error {
	err := s.http.Serve(newCrowd(l, client))
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Close ends all listeners and connections.
func (s *Server) Close() error {
	return errors.Join(s.http.Close(), s.take(nil))
}
