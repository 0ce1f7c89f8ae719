package fetch

import "time"

// shows is the least time between two reports of progress, and rateOver the time
// over which the rate is taken.
const (
	shows    = 200 * time.Millisecond
	rateOver = 3 * time.Second
)

// meter counts the bytes of one attempt.
type meter struct {
	show  func(Progress)
	p     Progress
	shown time.Time
	since time.Time // begin of the interval of the rate
	bytes int64     // in it
}

func (m *meter) add(n int) {
	now := time.Now()
	if m.since.IsZero() {
		m.since = now
	}
	m.p.Have += int64(n)
	m.bytes += int64(n)
	if past := now.Sub(m.since); past >= rateOver || m.p.Rate == 0 && past >= shows {
		m.p.Rate = int64(float64(m.bytes) / past.Seconds())
		if past >= rateOver {
			m.since, m.bytes = now, 0
		}
	}
	if now.Sub(m.shown) >= shows {
		m.shown = now
		m.show(m.p)
	}
}

func (m *meter) end() { m.show(m.p) }
