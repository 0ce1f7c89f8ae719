package authority

import (
	"bytes"

	"github.com/klauspost/compress/zstd"

	"github.com/chivenet/chive/internal/dirserver"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

// oldVote is a vote of the last round. Hardly anybody asks for it: it is kept compressed, and once somebody has asked, as
// it is, too. The Authority's mu guards it.
type oldVote struct {
	digest [20]byte
	packed []byte
	size   int
	whole  *dirserver.Doc // nil: nobody has asked
}

// votesOf returns the round's votes for the time after it.
func (r *round) votesOf() (map[ident.RSAID]*oldVote, error) {
	// Fast, for votes have some megabytes each.
	w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	out := make(map[ident.RSAID]*oldVote, len(r.votes))
	for id, v := range r.votes {
		packed := w.EncodeAll(v.Text, nil)
		out[id] = &oldVote{digest: v.Digest, size: len(v.Text), packed: bytes.Clone(packed)} // without what the slice has to spare
	}
	return out, nil
}

// doc returns the vote as it was.
func (v *oldVote) doc() (*dirserver.Doc, error) {
	if v.whole != nil {
		return v.whole, nil
	}
	r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	defer r.Close()
	text, err := r.DecodeAll(v.packed, make([]byte, 0, v.size))
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	v.whole = dirserver.NewDoc(text)
	return v.whole, nil
}
