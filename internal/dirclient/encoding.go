package dirclient

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"compress/zlib"
	"errors"
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
		return decodeZstd(r, limit)
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

// decodeZstd is decode for zstd. It takes what is encoded first, and needs no window beside the body then: twenty answers at a time
// would have one of some megabytes each.
func decodeZstd(r io.Reader, limit int64) ([]byte, error) {
	coded, err := io.ReadAll(r)
	z, err2 := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderMaxMemory(uint64(max(limit, maxWindow)))) // which refuses larger windows, too
	if err2 != nil {
		return nil, err2
	}
	defer z.Close()
	body, err2 := z.DecodeAll(coded, nil)
	if errors.Is(err2, zstd.ErrDecoderSizeExceeded) || int64(len(body)) > limit {
		return nil, fault.New(fault.Resource, "more than %d bytes after decoding", limit)
	}
	return body, cmp.Or(err, err2)
}
