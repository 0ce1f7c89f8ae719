package channel

import "github.com/chivenet/chive/internal/nonblock"

// bulkBytes is what a client's socket gave since it last waited, at least, when
// it is worth asking again before it waits again: a record of C tor's.
const bulkBytes = 4000

// pollTries is how often a socket is asked in vain before its reader waits: some
// thirty microseconds.
const pollTries = 32

// maxSkips bounds how many chances to poll are left out after ones in vain.
const maxSkips = 63

// poller decides when a client asks its socket again instead of waiting for it.
// In the midst of bulk the next record is a few microseconds away, and to be
// woken for it costs this side and, on one machine, the peer more than to ask.
// Where it is not so near, as on most networks, a poller learns that soon: each
// time that it asked in vain it leaves out twice as many chances.
type poller struct {
	bytes int // since the reader last waited
	skip  int // chances to be left out now
	skips int // to be left out after the next time in vain
}

// got notes n bytes that came.
func (p *poller) got(n int) { p.bytes += n }

// poll calls try until it reports that something came, and returns whether it
// did. The processor is offered to others between.
func (p *poller) poll(try func() bool) bool {
	bulk := p.bytes >= bulkBytes
	p.bytes = 0
	if !bulk {
		return false
	}
	if p.skip > 0 {
		p.skip--
		return false
	}
	for range pollTries {
		nonblock.Yield()
		if try() {
			p.skips = 0
			return true
		}
	}
	p.skip, p.skips = p.skips, min(2*p.skips+1, maxSkips)
	return false
}
