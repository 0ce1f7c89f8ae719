package bin

import (
	"bytes"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/fault"
)

func TestReader(t *testing.T) {
	r := NewReader("msg", []byte{1, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4, 2, 'a', 'b', 0, 1, 'c', 9})
	if r.U8() != 1 || r.U16() != 2 || r.U32() != 3 || r.U64() != 4 {
		t.Fatal("numbers")
	}
	if string(r.Vec8()) != "ab" || string(r.Vec16()) != "c" {
		t.Fatal("vectors")
	}
	if err := r.End(); err == nil || !strings.Contains(err.Error(), "msg: offset 21: 1 bytes left over") {
		t.Fatalf("leftover: %v", err)
	}
}

func TestReaderSticks(t *testing.T) {
	r := NewReader("msg", []byte{1, 2})
	if r.U32() != 0 || r.U8() != 0 || r.Len() != 0 || r.Rest() != nil {
		t.Fatal("reads after an error must return zero")
	}
	if !fault.Is(r.Err(), fault.Protocol) || !strings.Contains(r.Err().Error(), "4 bytes wanted, 2 left") {
		t.Fatalf("err: %v", r.Err())
	}
	first := r.Err()
	r.Fail("later")
	if r.Err() != first || r.End() != first {
		t.Fatal("the first error must stay")
	}
	dst := []byte{7, 7}
	r.Copy(dst)
	if !bytes.Equal(dst, []byte{7, 7}) {
		t.Fatal("copy after error wrote")
	}
}

// TestReaderToTheEnd: the last bytes can be read, nothing can be read any number of times, and a negative
// number of bytes is none.
func TestReaderToTheEnd(t *testing.T) {
	r := NewReader("msg", []byte{1, 2, 3})
	dst := make([]byte, 2)
	if r.Copy(dst); !bytes.Equal(dst, []byte{1, 2}) {
		t.Errorf("copied %v", dst)
	}
	if b := r.Bytes(1); !bytes.Equal(b, []byte{3}) || r.Err() != nil {
		t.Errorf("the last byte: %v, %v", b, r.Err())
	}
	if b := r.Bytes(0); b == nil || len(b) != 0 || r.End() != nil {
		t.Errorf("no bytes at the end: %v, %v", b, r.End())
	}
	if r.Bytes(-1); !fault.Is(r.Err(), fault.Protocol) {
		t.Errorf("-1 bytes: %v", r.Err())
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte{3, 1, 2, 3}, []byte{0, 1, 2, 3, 4, 5})
	f.Fuzz(func(t *testing.T, msg, ops []byte) {
		r := NewReader("fuzz", msg)
		for _, op := range ops {
			switch op % 7 {
			case 0:
				r.U8()
			case 1:
				r.U16()
			case 2:
				r.U32()
			case 3:
				r.U64()
			case 4:
				r.Vec8()
			case 5:
				r.Vec16()
			case 6:
				r.Bytes(int(op))
			}
			if r.Offset() > len(msg) || r.Len() < 0 {
				t.Fatal("out of bounds")
			}
		}
	})
}
