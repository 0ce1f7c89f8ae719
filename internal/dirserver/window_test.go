package dirserver

import (
	"bytes"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// TestWindow: a stream asks for no more memory than its document needs, or four megabytes.
func TestWindow(t *testing.T) {
	for _, x := range []struct{ size, most int }{{10, 1 << 10}, {1 << 10, 2 << 10}, {300_000, 1 << 19}, {5 << 20, 1 << 22}} {
		packed, err := encode(bytes.Repeat([]byte("0123456789"), x.size/10), "x-zstd", true)
		if err != nil {
			t.Fatal(err)
		}
		var h zstd.Header
		if err := h.Decode(packed); err != nil {
			t.Fatal(err)
		}
		if h.WindowSize > uint64(x.most) {
			t.Errorf("%d bytes: a window of %d; at most %d", x.size, h.WindowSize, x.most)
		}
		if text, err := unpack(packed); err != nil || len(text) != x.size/10*10 {
			t.Errorf("%d bytes: %d came back: %v", x.size, len(text), err)
		}
	}
}
