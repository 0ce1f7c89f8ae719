package localhttp

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/chivenet/chive/internal/listen"
	"github.com/chivenet/chive/internal/panics"
)

// Times and bounds of every local port. Programs of this machine send a request at once.
const (
	headerTime = 5 * time.Second  // for a request's header
	readTime   = 10 * time.Second // for a whole request
	writeTime  = 30 * time.Second // for an answer
	idleTime   = time.Minute      // between requests
	maxHeader  = 16 << 10         // bytes of a header, to which net/http adds 4096
)

// Server is one local port.
type Server struct {
	Handler http.Handler
	Guard   Guard
	Log     *slog.Logger // nil: silent
	Port    string       // names the port in the log
}

// Serve answers requests until ctx ends, and then closes l and all connections. The error
// is that of ctx then, or says why the listener failed.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	log := s.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	h := &http.Server{
		Handler: s.guarded(log), ReadHeaderTimeout: headerTime, ReadTimeout: readTime, WriteTimeout: writeTime, IdleTimeout: idleTime,
		MaxHeaderBytes: maxHeader, ConnContext: remember,
		DisableGeneralOptionsHandler: true, // it would answer "OPTIONS *" before the guard
		BaseContext:                  func(net.Listener) context.Context { return ctx },
		ErrorLog:                     slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug), // it would tell addresses
	}
	defer context.AfterFunc(ctx, panics.Contain(log, nil, func() { h.Close() }))()
	err := h.Serve(&crowd{Listener: listen.Patient(l, log, s.Port)})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// guarded returns the handler behind the guard.
func (s *Server) guarded(log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer panics.Recover(log, func(error) { http.Error(w, "internal error", http.StatusInternalServerError) })
		if status, why := s.Guard.Refuse(r); why != "" {
			w.Header().Set("Connection", "close") // its body is not read
			http.Error(w, why, status)
			return
		}
		s.Handler.ServeHTTP(w, r)
	})
}
