package stream

import (
	"strconv"
	"testing"
	"unsafe"
)

// TestStreamIsSmall: there may be tens of thousands of silent streams. 320 is a size of
// the allocator.
func TestStreamIsSmall(t *testing.T) {
	if strconv.IntSize != 64 {
		t.Skip("pointers are shorter here")
	}
	if n := unsafe.Sizeof(Stream{}); n > 320 {
		t.Errorf("a stream takes %d bytes, more than 320", n)
	}
}

// TestNames: an end that has a port is named with it, as net.Conn's addresses are.
func TestNames(t *testing.T) {
	for _, c := range []struct {
		s             *Stream
		local, remote string
	}{
		{&Stream{host: "host.example", port: 80}, "client", "host.example:80"},
		{&Stream{host: "2001:db8::1", port: 443}, "client", "[2001:db8::1]:443"},
		{&Stream{host: "directory"}, "client", "directory"},
		{&Stream{host: "exit stream", accepted: true}, "exit stream", "client"},
	} {
		if l, r := c.s.LocalAddr().String(), c.s.RemoteAddr().String(); l != c.local || r != c.remote {
			t.Errorf("%q and %q, not %q and %q", l, r, c.local, c.remote)
		}
	}
}
