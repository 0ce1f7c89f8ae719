package rpcserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/chivenet/chive/program"
)

const (
	// MaxBody bounds a request, in bytes: a transaction with six blobs in hexadecimal.
	MaxBody  = 4 << 20
	maxBatch = 32 // calls of one request
	// maxParallel bounds the calls of one request that are made at the same time: each may wait
	// for a circuit.
	maxParallel = 4
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
	// Data is what a contract said when it refused, or nil.
	Data hexutil.Bytes `json:"data,omitempty"`
}

func (e *Error) Error() string { return e.Message }

// Errorf returns an Error.
func Errorf(code int, format string, a ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, a...)}
}

// A Result is the answer to a call. Note is added to the answer as a member "chive", which
// other programs ignore. A Value of nil is JSON's null.
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
	// Origins are browser extensions that may ask, as "chrome-extension://ID". All other pages of a
	// browser are refused.
	Origins []string
}

func (s *Server) log() *slog.Logger {
	if s.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return s.Log
}

// Serve answers requests until ctx ends.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	guarded := program.HTTPServer{Handler: s.handler(), Guard: program.Guard{Loopback: true, NoPages: true, Extensions: s.Origins}, Log: s.Log, Name: "JSON-RPC"}
	return guarded.Serve(ctx, l)
}

func (s *Server) handler() http.Handler {
	large, calls := newSlots(maxLarge), newSlots(maxCalls)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if allow(w, r) {
			return
		}
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
		defer program.KeepConn(r.Context())()
		if err := calls.take(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		// Without this, the time for a request's body would end the call: net/http goes on reading
		// to learn that the client has gone. A recorder in a test has no deadlines.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(callTime + writeTime))
		answer := func() []byte {
			defer calls.give()
			ctx, cancel := context.WithTimeout(r.Context(), callTime)
			defer cancel()
			return s.answer(ctx, body)
		}()
		if answer == nil {
			w.WriteHeader(http.StatusNoContent) // notifications only
			return
		}
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTime))
		w.Header().Set("Content-Type", "application/json")
		w.Write(answer)
	})
}

// allow tells a browser that an extension may read the answer: the guard has let its origin in. It
// reports whether the request was the browser's question before a call (CORS), which is answered so.
func allow(w http.ResponseWriter, r *http.Request) (asked bool) {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Vary", "Origin")
	if r.Method != http.MethodOptions {
		return false
	}
	h.Set("Access-Control-Allow-Methods", http.MethodPost)
	h.Set("Access-Control-Allow-Headers", "Content-Type")
	if r.Header.Get("Access-Control-Request-Private-Network") != "" {
		h.Set("Access-Control-Allow-Private-Network", "true")
	}
	w.WriteHeader(http.StatusNoContent)
	return true
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
	batch, err := split(body)
	if err != nil {
		return encode(failed(nil, Errorf(CodeParse, "the request is no JSON")))
	}
	if len(batch) == 0 || len(batch) > maxBatch {
		return encode(failed(nil, Errorf(CodeRequest, "a batch must have 1 to %d calls", maxBatch)))
	}
	answers := make([]*response, len(batch))
	var wg sync.WaitGroup
	places := make(chan struct{}, maxParallel)
	for i, raw := range batch {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			answers[i] = s.one(ctx, raw)
		})
	}
	wg.Wait()
	answers = slices.DeleteFunc(answers, func(r *response) bool { return r == nil })
	if len(answers) == 0 {
		return nil
	}
	return encode(answers)
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

// one answers one call; nil for a notification. A call that panics harms no other.
func (s *Server) one(ctx context.Context, raw []byte) (answer *response) {
	var r request
	if err := json.Unmarshal(raw, &r); err != nil {
		return failed(nil, Errorf(CodeParse, "the request is no JSON-RPC call"))
	}
	program.Contain(s.log(), func(error) { answer = failed(r.ID, Errorf(CodeInternal, "internal error")) }, func() { answer = s.call(ctx, &r) })()
	return answer
}

// call makes one call; nil for a notification.
func (s *Server) call(ctx context.Context, r *request) *response {
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
			s.log().Warn("a call failed", "method", r.Method, "err", err)
			e = Errorf(CodeInternal, "the node could not do it; its log says why")
		}
		return failed(r.ID, e)
	}
	if result.Value == nil {
		result.Value = json.RawMessage("null") // an answer without a result would be none
	}
	return &response{Version: "2.0", ID: r.ID, Result: result.Value, Note: result.Note}
}

// split returns the calls of a batch, and no more than one above the bound: a body of digits and
// commas has millions, and each takes ten times what it has in the body.
func split(body []byte) (batch []json.RawMessage, err error) {
	dec := json.NewDecoder(bytes.NewReader(body))
	if _, err := dec.Token(); err != nil { // [
		return nil, err
	}
	for dec.More() {
		var one json.RawMessage
		if err := dec.Decode(&one); err != nil {
			return nil, err
		}
		if batch = append(batch, one); len(batch) > maxBatch {
			return batch, nil
		}
	}
	if _, err := dec.Token(); err != nil { // ]
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("something follows the batch")
	}
	return batch, nil
}
