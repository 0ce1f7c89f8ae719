package rpcserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/chivenet/chive/internal/listen"
	"github.com/chivenet/chive/internal/localhttp"
)

const (
	// MaxBody bounds a request, in bytes: a transaction with six blobs in hexadecimal.
	MaxBody  = 4 << 20
	maxBatch = 32 // calls of one request
)

// Codes of errors (JSON-RPC 2.0, and EIP-1474 from -32000 on).
const (
	CodeParse    = -32700
	CodeRequest  = -32600
	CodeMethod   = -32601
	CodeParams   = -32602
	CodeInternal = -32603
	CodeRefused  = -32000
)

// An Error is the answer to a call that failed.
type Error struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *Error) Error() string { return e.Message }

// Errorf returns an Error.
func Errorf(code int, format string, a ...any) *Error {
	return &Error{code, fmt.Sprintf(format, a...)}
}

// A Result is the answer to a call. Note is added to the answer as a member "chive", which
// other programs ignore.
type Result struct {
	Value any
	Note  any
}

// A Method answers calls. params is a JSON array, or null. An error that is no *Error is
// reported without its text.
type Method func(ctx context.Context, params json.RawMessage) (Result, error)

// A Server answers calls by a table of methods.
type Server struct {
	Methods map[string]Method
	Log     *slog.Logger
}

// Listen opens the port of a server. Addresses that are not loopback are refused.
func Listen(addr string) (net.Listener, error) {
	at, err := netip.ParseAddrPort(addr)
	if err != nil || !at.Addr().IsLoopback() {
		return nil, fmt.Errorf("%q is not an address of loopback, such as 127.0.0.1:8545", addr)
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, listen.Failed(addr, err)
	}
	return l, nil
}

// Serve answers requests until ctx ends.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	guarded := localhttp.Server{Handler: s.handler(), Guard: localhttp.Guard{Loopback: true, NoPages: true}, Log: s.Log, Port: "JSON-RPC"}
	return guarded.Serve(ctx, l)
}

func (s *Server) handler() http.Handler {
	large, calls := newSlots(maxLarge), newSlots(maxCalls)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status, why := refuse(r); why != "" {
			http.Error(w, why, status)
			return
		}
		body, err := read(w, r, large)
		switch {
		case errors.Is(err, errBusy):
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		case err != nil:
			http.Error(w, "the request is too large, or was cut off", http.StatusRequestEntityTooLarge)
			return
		}
		// The client is not needed for the calls: it holds no slot while it reads or writes.
		defer localhttp.Keep(r.Context())()
		if err := calls.take(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		answer := func() []byte {
			defer calls.give()
			return s.answer(r.Context(), body)
		}()
		if answer == nil {
			w.WriteHeader(http.StatusNoContent) // notifications only
			return
		}
		// A recorder in a test has no deadlines.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTime))
		w.Header().Set("Content-Type", "application/json")
		w.Write(answer)
	})
}

// refuse says why a request is refused, or nothing. Which Hosts and pages are refused, the
// guard of the port has decided before.
func refuse(r *http.Request) (status int, why string) {
	if r.Method != http.MethodPost {
		return http.StatusMethodNotAllowed, "use POST"
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return http.StatusUnsupportedMediaType, "use the media type application/json"
	}
	return 0, ""
}

type request struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
}

type response struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  any             `json:"result,omitempty"`
	Error   *Error          `json:"error,omitempty"`
	Note    any             `json:"chive,omitempty"`
}

// answer answers a body: one call, or a batch. It is nil if nothing wants an answer.
func (s *Server) answer(ctx context.Context, body []byte) []byte {
	body = bytes.TrimSpace(body)
	if len(body) == 0 || body[0] != '[' {
		r := s.one(ctx, body)
		if r == nil {
			return nil
		}
		return encode(r)
	}
	var batch []json.RawMessage
	if err := json.Unmarshal(body, &batch); err != nil {
		return encode(failed(nil, Errorf(CodeParse, "the request is no JSON")))
	}
	if len(batch) == 0 || len(batch) > maxBatch {
		return encode(failed(nil, Errorf(CodeRequest, "a batch must have 1 to %d calls", maxBatch)))
	}
	var all []*response
	for _, raw := range batch {
		if r := s.one(ctx, raw); r != nil {
			all = append(all, r)
		}
	}
	if all == nil {
		return nil
	}
	return encode(all)
}

func encode(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil { // a result of a method that JSON does not know
		raw, _ = json.Marshal(failed(nil, Errorf(CodeInternal, "the result cannot be encoded")))
	}
	return raw
}

func failed(id json.RawMessage, e *Error) *response {
	if id == nil {
		id = json.RawMessage("null")
	}
	return &response{Version: "2.0", ID: id, Error: e}
}

// one answers one call; nil for a notification.
func (s *Server) one(ctx context.Context, raw []byte) *response {
	var r request
	if err := json.Unmarshal(raw, &r); err != nil {
		return failed(nil, Errorf(CodeParse, "the request is no JSON-RPC call"))
	}
	if r.Version != "2.0" || r.Method == "" || len(r.ID) > 256 {
		return failed(nil, Errorf(CodeRequest, "the request is no JSON-RPC 2.0 call"))
	}
	if len(r.ID) > 0 && (r.ID[0] == '{' || r.ID[0] == '[') {
		return failed(nil, Errorf(CodeRequest, "the ID must be a number or a string"))
	}
	method := s.Methods[r.Method]
	var result Result
	err := error(Errorf(CodeMethod, "the node keeps no state, and does not have this method"))
	if method != nil {
		result, err = method(ctx, r.Params)
	}
	if r.ID == nil {
		return nil
	}
	if err != nil {
		var e *Error
		if !errors.As(err, &e) {
			if s.Log != nil {
				s.Log.Warn("a call failed", "method", r.Method, "err", err)
			}
			e = Errorf(CodeInternal, "the node could not do it; its log says why")
		}
		return failed(r.ID, e)
	}
	return &response{Version: "2.0", ID: r.ID, Result: result.Value, Note: result.Note}
}
