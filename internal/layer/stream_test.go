package layer

import (
	"io"
	"testing"

	"github.com/chivenet/chive/internal/cell"
)

// The stream that this CPU uses is the standard library's, over more payloads
// than there are places in a block where one can begin, wherever in memory it
// stands; around it nothing changes.
func TestStreamAgainstLibrary(t *testing.T) {
	rnd := keyStream("stream")
	for _, keyLen := range []int{16, 32} {
		key := make([]byte, keyLen)
		io.ReadFull(rnd, key)
		got, err := newStream(key)
		if err != nil {
			t.Fatal(err)
		}
		want, err := newLibraryStream(key)
		if err != nil {
			t.Fatal(err)
		}
		for n := range 200 {
			var frame [cell.PayloadLen + 128]byte
			io.ReadFull(rnd, frame[:])
			p := (*[cell.PayloadLen]byte)(frame[(5+13*n)%128:])
			expect := frame
			want.xor((*[cell.PayloadLen]byte)(expect[(5+13*n)%128:]))
			if got.xor(p); frame != expect {
				t.Fatalf("AES-%d, payload %d", keyLen*8, n)
			}
		}
	}
}
