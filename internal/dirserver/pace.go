package dirserver

import (
	"io"
	"time"
)

// deadliner is a connection whose waits can be bounded.
type deadliner interface {
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
}

// paced is a connection whose peer must keep a pace, in what it sends and in
// what it takes: no wait is longer than the patience, and all together take no
// longer than that and the time that the bytes take at the least rate. So
// nobody keeps a place by a byte a minute. It goes by the connection's clock,
// whatever Config.Now is.
type paced struct {
	io.ReadWriter
	clock    deadliner // nil: it has none
	patience time.Duration
	rate     int64 // bytes a second
	since    time.Time
	moved    int64         // bytes since then
	limit    time.Duration // of all together; zero: none
}

func newPaced(c io.ReadWriter, cfg *Config) *paced {
	p := &paced{ReadWriter: c, patience: cfg.Timeout, rate: cfg.MinRate}
	p.clock, _ = c.(deadliner)
	p.begin(maxUploadTime * cfg.Timeout)
	return p
}

// maxUploadTime bounds the time of a request, in patiences: votes and
// signatures that come later are of no use.
const maxUploadTime = 10

// begin begins to measure anew.
func (p *paced) begin(limit time.Duration) { p.since, p.moved, p.limit = time.Now(), 0, limit }

// deadline returns when the next wait must be over.
func (p *paced) deadline() time.Time {
	whole := p.patience + time.Duration(float64(p.moved)/float64(p.rate)*float64(time.Second))
	if p.limit > 0 {
		whole = min(whole, p.limit)
	}
	end := p.since.Add(whole)
	if soon := time.Now().Add(p.patience); soon.Before(end) {
		return soon
	}
	return end
}

// Read implements io.Reader. A closed connection fails at its next use, so that
// errors of deadlines say nothing.
func (p *paced) Read(b []byte) (int, error) {
	if p.clock != nil {
		_ = p.clock.SetReadDeadline(p.deadline())
	}
	n, err := p.ReadWriter.Read(b)
	p.moved += int64(n)
	return n, err
}

// Write implements io.Writer.
func (p *paced) Write(b []byte) (int, error) {
	if p.clock != nil {
		_ = p.clock.SetWriteDeadline(p.deadline())
	}
	n, err := p.ReadWriter.Write(b)
	p.moved += int64(n)
	return n, err
}

// farewell is how long a peer that cannot be served may take to hear of it.
const farewell = 2 * time.Second

// hurry leaves the peer no more time than for a farewell.
func (p *paced) hurry() { p.patience = min(p.patience, farewell); p.begin(farewell) }
