package dirclient

import (
	"bytes"
	"encoding/base64"
	"slices"
	"strings"

	"github.com/chivenet/chive/internal/ident"
)

// C tor divides in this way, and caches see how many digests a request has (routerlist.c,
// launch_descriptor_downloads and max_dl_per_request).
const (
	maxBatch   = 500 // digests in one request
	shortBatch = 90  // and in one of public relays, whose line stays under 4096 bytes (dir-spec 5.2)
	minBatch   = 32  // fewer digests are not worth a request of their own
	minBatches = 3   // so that no cache can choose alone what a client knows

	maxParallel = 96 // requests at a time: all that a network of public size needs, as in C tor
)

// batch is a request for microdescriptors.
type batch struct {
	digests [][32]byte
	avoid   []ident.RelayID
	attempt int
}

// split sorts digests, and divides them into batches, so that even a small number is divided
// among a few requests. Each has most digests at most.
func split(digests [][32]byte, most int) []batch {
	slices.SortFunc(digests, func(a, b [32]byte) int { return bytes.Compare(a[:], b[:]) })
	size := max(min((len(digests)+minBatches-1)/minBatches, most), minBatch)
	var out []batch
	for len(digests) > 0 {
		n := min(size, len(digests))
		out = append(out, batch{digests: digests[:n]})
		digests = digests[n:]
	}
	return out
}

func (b *batch) request() *request {
	var s strings.Builder
	s.WriteString("/tor/micro/d/")
	for i, d := range b.digests {
		if i > 0 {
			s.WriteByte('-')
		}
		s.WriteString(base64.RawStdEncoding.EncodeToString(d[:]))
	}
	s.WriteString(".z")
	return &request{path: s.String(), limit: microLimit}
}

// lacking counts the digests whose microdescriptors are missing.
func lacking(digests [][32]byte, lacks func([32]byte) bool) (n int) {
	for _, d := range digests {
		if lacks(d) {
			n++
		}
	}
	return n
}

// again puts the digests of a batch that are still missing at the end of the queue,
// for another cache, unless limit caches were asked.
func again(queue []batch, a microAnswer, limit int, lacks func([32]byte) bool) []batch {
	b := batch{avoid: append(a.batch.avoid, a.cache), attempt: a.batch.attempt + 1}
	if b.attempt == limit {
		return queue
	}
	for _, d := range a.batch.digests {
		if lacks(d) {
			b.digests = append(b.digests, d)
		}
	}
	if len(b.digests) == 0 {
		return queue
	}
	return append(queue, b)
}
