package scale

import (
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/chivenet/chive/internal/fault"
)

var unzstder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxAnswer))
})

// unzstd undoes a directory's compression.
func unzstd(b []byte) ([]byte, error) {
	d, err := unzstder()
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	out, err := d.DecodeAll(b, nil)
	return out, fault.Wrap(fault.Directory, err)
}
