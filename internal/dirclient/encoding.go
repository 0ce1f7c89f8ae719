package dirclient

import (
	"bufio"
	"compress/gzip"
	"compress/zlib"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz/lzma"

	"github.com/chivenet/chive/internal/fault"
)

// maxWindow bounds the window that a zstd or LZMA stream may ask for, in bytes; C tor's
// highest presets use 4 and 8 MB.
const maxWindow = 8 << 20

// decode reads all of r, decodes it with a content encoding of dir-spec or
// proposal 278, and returns at most limit bytes, of however many streams or frames
// they come. It leaves no byte of r unread. With an error, it may return the
// beginning.
func decode(r io.Reader, encoding string, limit int64) ([]byte, error) {
	var plain io.Reader
	switch encoding {
	case "", "identity":
		plain = r
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, err
		}
		plain = z
	case "deflate": // zlib's format, as in HTTP
		z, err := zlib.NewReader(r)
		if err != nil {
			return nil, err
		}
		plain = z
	case "x-zstd":
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, err
		}
		defer z.Close()
		plain = z
	case "x-tor-lzma": // the format of .lzma files
		z, err := lzma.ReaderConfig{DictCap: maxWindow}.NewReader(bufio.NewReader(r))
		if err != nil {
			return nil, err
		}
		plain = z
	default:
		return nil, fault.New(fault.Protocol, "encoding %.20q, which was not asked for", encoding)
	}
	body, err := io.ReadAll(io.LimitReader(plain, limit+1))
	if err != nil {
		return body, err
	}
	if int64(len(body)) > limit {
		return nil, fault.New(fault.Resource, "more than %d bytes after decoding", limit)
	}
	if _, err := io.Copy(io.Discard, io.LimitReader(r, 64)); err != nil { // bytes after the end of the encoded data
		return nil, err
	}
	return body, nil
}
