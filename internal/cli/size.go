package cli

import (
	"strconv"

	"github.com/chivenet/chive/internal/quantity"
)

// sizeFlag is a flag whose value is a number of bytes, perhaps with a unit.
type sizeFlag int64

func (s *sizeFlag) String() string { return strconv.FormatInt(int64(*s), 10) }
func (s *sizeFlag) Type() string   { return "int64" }

func (s *sizeFlag) Set(text string) error {
	n, err := quantity.Bytes(text)
	if err == nil {
		*s = sizeFlag(n) // below 2^62
	}
	return err
}
