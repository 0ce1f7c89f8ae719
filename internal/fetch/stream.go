package fetch

import (
	"io"

	"github.com/chivenet/chive/internal/fault"
)

// stream is a sink that cannot take bytes back.
type stream struct {
	w    io.Writer
	size int64
	of   version
}

var errNoReturn = final{fault.New(fault.Network, "the connection broke, the server cannot send the rest alone, and what was written cannot be taken back")}

func (s *stream) Write(b []byte) (int, error) {
	n, err := s.w.Write(b)
	s.size += int64(n)
	return n, err
}

func (s *stream) held() (int64, version) { return s.size, s.of }

func (s *stream) begin(v version) error {
	if s.size > 0 {
		return errNoReturn
	}
	s.of = v
	return nil
}
