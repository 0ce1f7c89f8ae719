package watch

import (
	"strings"
	"time"
)

// remembered is how many rates are kept, one for each second.
const remembered = 600

// history are the rates of one direction, in bytes a second.
type history struct {
	rates []float64 // the newest last
	total uint64
	at    time.Time
}

// add notes the bytes since the start, at a time.
func (h *history) add(total uint64, at time.Time) {
	past := at.Sub(h.at).Seconds()
	if h.at.IsZero() || total < h.total { // the first, or another process
		h.rates, h.total, h.at = nil, total, at
		return
	}
	if past <= 0 {
		return
	}
	rate := float64(total-h.total) / past
	for range min(max(int(past+0.5), 1), remembered) { // also after a pause a column is a second
		h.rates = append(h.rates, rate)
	}
	h.rates = h.rates[max(0, len(h.rates)-remembered):]
	h.total, h.at = total, at
}

func (h *history) now() float64 {
	if len(h.rates) == 0 {
		return 0
	}
	return h.rates[len(h.rates)-1]
}

// most returns the greatest of the newest rates.
func (h *history) most(n int) (most float64) {
	for _, r := range h.rates[max(0, len(h.rates)-n):] {
		most = max(most, r)
	}
	return most
}

// The characters for an empty to a full cell of a graph.
var (
	blocks = []rune(" ▁▂▃▄▅▆▇█")
	ascii  = []rune(" .,:;+*%#")
)

// graph draws the newest rates as columns, with the greatest as high as the graph.
func (h *history) graph(width, height int, glyphs []rune) []string {
	rates := h.rates[max(0, len(h.rates)-width):]
	most := max(h.most(width), 1)
	full := len(glyphs) - 1
	out := make([]string, height)
	for row := range out {
		var b strings.Builder
		b.WriteString(strings.Repeat(" ", width-len(rates)))
		for _, r := range rates {
			level := int(r/most*float64(height*full) + 0.5)
			if r > 0 {
				level = max(level, 1)
			}
			b.WriteRune(glyphs[min(max(level-(height-1-row)*full, 0), full)])
		}
		out[row] = b.String()
	}
	return out
}
