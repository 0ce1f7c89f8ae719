package dirclient

import (
	"bufio"
	"bytes"
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

// maxFrames is how many zstd frames are decoded at once. C tor sends one.
const maxFrames = 16

// decodeZstd is decode for zstd. A decoder that reads has a window of up to maxWindow, and a client of the public network has twenty answers at a
// time: so what is encoded comes first, and is decoded in one go, which needs none. But then each frame that states its size has all moved that
// came before it, so that many frames go the other way.
func decodeZstd(r io.Reader, limit int64) ([]byte, error) {
	coded, err := io.ReadAll(r)
	z, bad := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow),
		zstd.WithDecoderMaxMemory(uint64(max(limit, maxWindow)))) // a smaller one would refuse windows
	if bad != nil {
		return nil, bad
	}
	defer z.Close()
	var body []byte
	if bytes.Count(coded, zstdMagic) <= maxFrames {
		body, bad = z.DecodeAll(coded, nil)
	} else if bad = z.Reset(bytes.NewReader(coded)); bad == nil {
		body, bad = io.ReadAll(io.LimitReader(z, limit+1))
	}
	if int64(len(body)) > limit || errors.Is(bad, zstd.ErrDecoderSizeExceeded) {
		return nil, fault.New(fault.Resource, "more than %d bytes after decoding", limit)
	}
	return body, cmp.Or(err, bad)
}

// zstdMagic begins each frame (RFC 8878, section 3.1.1).
var zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
