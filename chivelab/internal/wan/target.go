package wan

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/target"
)

// server is the web server that the clients ask.
type server struct {
	listener net.Listener
	web      *http.Server
}

// listenTarget opens the server's port.
func listenTarget(addr string) (*server, error) {
	l, err := net.Listen("tcp4", addr)
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /bytes/{n}", func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.ParseInt(r.PathValue("n"), 10, 64)
		if err != nil || n < 0 || n > target.MaxBytes {
			http.Error(w, "how many bytes?", http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Length", strconv.FormatInt(n, 10))
		_, _ = io.Copy(w, target.Bytes(n)) // a client that leaves sees it itself
	})
	return &server{l, &http.Server{Handler: mux, ReadHeaderTimeout: 30 * time.Second}}, nil
}

func (s *server) serve() error {
	if err := s.web.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fault.Wrap(fault.Local, err)
	}
	return nil
}

func (s *server) close() { s.web.Close() }
