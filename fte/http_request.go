package fte

import (
	"bytes"
	"encoding/hex"
	"io"
	"net/http"
	"time"
)

// sessionID returns the session that a request names, if it may be one's.
func sessionID(r *http.Request) (id string, ok bool) {
	name := r.URL.Path
	if i := len(name) - 2*sessionLen; i > 0 {
		name = name[i:]
	}
	b, err := hex.DecodeString(name)
	return string(b), r.Method == http.MethodPost && err == nil && len(b) == sessionLen
}

// readBody reads a body of at most the given length before the deadline, and
// takes that away. If it fails, it returns what it has read, which r.Body lacks.
func readBody(rc *http.ResponseController, r *http.Request, most int) (b []byte, ok bool) {
	if r.ContentLength > int64(most) {
		return nil, false
	}
	b, err := io.ReadAll(io.LimitReader(r.Body, int64(most)+1))
	if err != nil || len(b) > most {
		return b, false
	}
	rc.SetReadDeadline(time.Time{})
	return b, true
}

// refuse gives a request to the decoy. read is what was read of its body. The
// decoy has as much time as the request and the answer need, as long as both
// move.
func (s *HTTPServer) refuse(w http.ResponseWriter, r *http.Request, read []byte) {
	rc := http.NewResponseController(w)
	if r.ContentLength == 0 {
		rc.SetReadDeadline(time.Time{})
	} else {
		r.Body = &movingBody{Reader: io.MultiReader(bytes.NewReader(read), r.Body), Closer: r.Body, rc: rc}
	}
	s.Stats.Decoyed.Add(1)
	s.Decoy.ServeHTTP(movingWriter{w, rc}, r)
}

// movingBody is a body of which each piece must come in time.
type movingBody struct {
	io.Reader
	io.Closer
	rc *http.ResponseController
}

func (b *movingBody) Read(p []byte) (int, error) {
	b.rc.SetReadDeadline(time.Now().Add(HTTPIdle))
	n, err := b.Reader.Read(p)
	if err == io.EOF {
		b.rc.SetReadDeadline(time.Time{})
	}
	return n, err
}

// movingWriter is an answer of which each piece must be taken in time.
type movingWriter struct {
	http.ResponseWriter
	rc *http.ResponseController
}

func (w movingWriter) Write(p []byte) (int, error) {
	w.rc.SetWriteDeadline(time.Now().Add(HTTPIdle))
	return w.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController find what this lacks.
func (w movingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
