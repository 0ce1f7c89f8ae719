package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/listen"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/socks"
)

const (
	// statusSocket is the name of the status socket inside the data directory.
	statusSocket = "status.sock"
	// statusTimeout is how long either side waits for the other, which may be busy.
	statusTimeout = 20 * time.Second
	// requestTimeout is how long the process waits for a request. Then it sends its
	// status: programs of earlier versions ask by connecting.
	requestTimeout = time.Second
	// maxAsking is how many may ask at a time.
	maxAsking = 16
	// Bounds of a request and of an answer, in bytes.
	maxRequest = 1 << 20
	maxAnswer  = 16 << 20
)

// What can be asked through the status socket.
const (
	askStatus = "status"
	askNewnym = "newnym" // for a new identity
	askAgree  = "agree"  // whether the process runs with some options
	askReload = "reload" // to read its settings and files again, as SIGHUP
)

// request is what another process asks, as one JSON value. The answer is JSON, to the
// end of the connection.
type request struct {
	Do string `json:"do"`
	// LogAfter is for askStatus: after the status come the later lines of the log.
	LogAfter *uint64 `json:"log_after,omitempty"`
	// Network and Options are for askAgree: a digest of the network, and the values of
	// options as a user would write them.
	Network string            `json:"network,omitempty"`
	Options map[string]string `json:"options,omitempty"`
}

// reply is the answer to a request that is not askStatus. Exactly one field is set: earlier
// versions answer every request with their status, which has none.
type reply struct {
	Done   bool          `json:"done,omitempty"`   // as asked
	Error  string        `json:"error,omitempty"`  // why not
	Differ []string      `json:"differ,omitempty"` // options with other values
	Wait   time.Duration `json:"wait,omitempty"`   // until the request can be granted
}

// err returns why it was not done as asked.
func (r reply) err() error {
	if r.Error == "" {
		return nil
	}
	return errors.New(r.Error)
}

// logReply follows the status if the log was asked for.
type logReply struct {
	Lines []string `json:"lines"`
	Last  uint64   `json:"last"` // the number of the last line
}

// answers is what a running process tells others.
type answers struct {
	status func() any // it begins with a rolePrefix
	log    *logRing
	newnym func() reply
	agree  func(request) reply
	reload func() reply
}

func (a *answers) answer(w io.Writer, req request) {
	out := json.NewEncoder(w) // an error means that nobody waits any more
	switch req.Do {
	case askStatus, "":
		out.Encode(a.status())
		if req.LogAfter != nil {
			out.Encode(a.log.after(*req.LogAfter))
		}
	case askNewnym:
		out.Encode(a.newnym())
	case askAgree:
		out.Encode(a.agree(req))
	case askReload:
		out.Encode(a.reload())
	default:
		out.Encode(reply{Error: "this version cannot be asked that"})
	}
}

// statusServer answers requests on the status socket.
type statusServer struct {
	l       net.Listener
	answers answers
	wg      sync.WaitGroup

	mu     sync.Mutex // guards what follows
	conns  map[net.Conn]struct{}
	closed bool
}

func serveStatus(dataDir string, a answers, log *slog.Logger) (*statusServer, error) {
	l, err := socks.ListenUnix(filepath.Join(dataDir, statusSocket))
	if err != nil {
		return nil, err
	}
	s := &statusServer{l: l, answers: a, conns: map[net.Conn]struct{}{}}
	s.wg.Go(panics.Contain(log, nil, func() {
		err := listen.Serve(context.Background(), l, log, "status socket", func(c net.Conn) { s.take(c, log) })
		if !fault.Is(err, fault.Closed) {
			log.Error("the status socket is closed", "err", err)
		}
	}))
	return s, nil
}

// take answers on a goroutine of its own, unless too many ask.
func (s *statusServer) take(c net.Conn, log *slog.Logger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.conns) >= maxAsking {
		c.Close()
		return
	}
	s.conns[c] = struct{}{}
	s.wg.Go(panics.Contain(log, nil, func() {
		defer s.done(c)
		s.serve(c)
	}))
}

func (s *statusServer) serve(c net.Conn) {
	c.SetDeadline(time.Now().Add(statusTimeout))
	c.SetReadDeadline(time.Now().Add(requestTimeout))
	var req request
	err := json.NewDecoder(io.LimitReader(c, maxRequest)).Decode(&req)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrDeadlineExceeded) {
		json.NewEncoder(c).Encode(reply{Error: "the request is not JSON of a known form"})
		return
	}
	s.answers.answer(c, req)
}

func (s *statusServer) done(c net.Conn) {
	c.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

func (s *statusServer) close() {
	s.l.Close()
	s.cut()
	s.wg.Wait()
}

// cut ends requests: a reader that does not read must not hold up the end.
func (s *statusServer) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for c := range s.conns {
		c.Close()
	}
}
