// Package programtest has what the tests of a program around Chive need: the checks that Chive's own
// programs go through.
package programtest

import (
	"net"
	"testing"

	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/internal/localhttp/guardtest"
	"github.com/chivenet/chive/internal/panics/panicstest"
)

// Need skips the test, and says why, if err says that a program of another project is missing. With the
// environment variable CHIVE_INTEROP=1 the test fails instead, so that a machine that should have the
// program cannot pass without it. It skips in short mode, with or without an error.
func Need(t testing.TB, what string, err error) {
	t.Helper()
	labtest.Need(t, what, err)
}

// NoLeaks fails the test if, at its end, there are goroutines with code of Chive, or of another package below
// its path, that did not exist when NoLeaks was called. No other test may run at the same time.
func NoLeaks(t testing.TB) {
	t.Helper()
	labtest.NoLeaks(t)
}

// LintMetrics has promtool, Prometheus' own judge, read metrics, which must find nothing to complain of. It
// needs promtool, as Need says.
func LintMetrics(t testing.TB, text string) {
	t.Helper()
	labtest.LintMetrics(t, text)
}

// ExpectPanics has panics contained until the test ends, as they are outside tests, and then fails the test
// unless there were want of them. Nothing that may panic may run after the test, and no other test beside it.
func ExpectPanics(t testing.TB, want uint64) {
	t.Helper()
	panicstest.Expect(t, want)
}

// HTTPPort is a local port that speaks HTTP, with a request to it.
type HTTPPort struct {
	Line   string // a request's first line, such as "GET /metrics HTTP/1.1"
	Header string // what its requests have beside Host, each line with its end
	Body   string
	OK     string   // what its answer to an allowed request begins with, such as "HTTP/1.1 200 "
	Names  []string // the guard's
	// Serve serves the port on l until stop, which waits until nothing is left.
	Serve func(l net.Listener) (stop func())
}

// WalkHTTP checks that the port is behind the guard (program.Guard): it sends the requests of programs of this
// machine, which must be answered, those of web pages, which must not, and one that does not end. Each runs in
// a bubble of testing/synctest.
func WalkHTTP(t *testing.T, p HTTPPort) {
	t.Helper()
	guardtest.Walk(t, guardtest.Port(p))
}

// Listener gives out connections in memory, so that a test of a port can run on virtual time.
type Listener struct{ inner *guardtest.Listener }

// NewListener returns an open listener.
func NewListener() *Listener { return &Listener{guardtest.NewListener()} }

// Dial connects to the listener. The next Accept returns the other end.
func (l *Listener) Dial() net.Conn { return l.inner.Dial() }

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) { return l.inner.Accept() }

// Close implements net.Listener.
func (l *Listener) Close() error { return l.inner.Close() }

// Addr implements net.Listener. The address is made up.
func (l *Listener) Addr() net.Addr { return l.inner.Addr() }
