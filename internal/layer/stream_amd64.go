package layer

import "github.com/chivenet/chive/internal/cell"

// newStream prefers 512-bit registers: the standard library's counter mode uses
// 128-bit registers and takes four times as long.
func newStream(key []byte) (payloadStream, error) {
	if !haveWide || len(key) != 16 {
		return newLibraryStream(key)
	}
	s := new(wideStream)
	aesExpand(&s.k, (*[16]byte)(key))
	return s, nil
}

// wideStream implements payloadStream with AES-128 on 512-bit registers.
type wideStream struct {
	k   roundKeys
	pos uint64 // bytes used; the counter never exceeds its lower 64 bits
}

func (s *wideStream) xor(p *[cell.PayloadLen]byte) {
	wideCounter(&s.k, s.pos, p)
	s.pos += cell.PayloadLen
}

// wideCounter xors p with the key stream from byte pos on. The block of counter 0
// is the first.
//
//go:noescape
func wideCounter(k *roundKeys, pos uint64, p *[cell.PayloadLen]byte)
