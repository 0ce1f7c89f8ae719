package channel

import "github.com/chivenet/chive/internal/nonblock"

// bulkBytes is how many bytes a client must have read since its last wait before it
// polls the socket instead of waiting: four cells.
const bulkBytes = 2000

// pollTries is how many times a reader polls without success before it waits. Beside
// busy relays on one machine, nine of ten polls that find something find it by then, and
// 70 cells at once; later ones find one record.
const pollTries = 2

// maxSkips bounds how many chances to poll are skipped after polls without success.
const maxSkips = 15

// poller decides when a client polls its socket instead of waiting for it. During a
// bulk transfer on a busy machine the peer waits for the processor, and has much to
// send once it gets it. To wait and be woken then costs more than to poll, on this side
// and, if both run on one machine, for the peer. On most networks the next record is
// farther away, and the poller learns that soon: after each poll without success it
// skips twice as many chances.
type poller struct {
	bytes    int // read since the reader last waited
	skip     int // chances still to skip
	skipNext int // to skip after the next poll without success
}

// got counts n bytes that arrived.
func (p *poller) got(n int) { p.bytes += n }

// poll calls try until it reports that something arrived, and returns whether it
// did. Between the calls other goroutines may run.
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
			p.skipNext = 0
			return true
		}
	}
	p.skip, p.skipNext = p.skipNext, min(2*p.skipNext+1, maxSkips)
	return false
}
