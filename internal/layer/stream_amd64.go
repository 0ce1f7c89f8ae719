package layer

import "github.com/chivenet/chive/internal/cell"

// newStream prefers wide registers: the standard library's counter mode uses 128-bit
// ones, and takes four times as long.
func newStream(key []byte) (payloadStream, error) {
	if len(key) != 16 || !haveWide && !haveVector {
		return newLibraryStream(key)
	}
	var k roundKeys
	aesExpand(&k, (*[16]byte)(key))
	if haveWide {
		return &wideStream{k: k}, nil
	}
	return &vectorStream{k: k}, nil
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

// vectorStream implements payloadStream with AES-128 on 256-bit registers.
type vectorStream struct {
	k   roundKeys
	pos uint64 // as wideStream's
}

func (s *vectorStream) xor(p *[cell.PayloadLen]byte) {
	vectorCounter(&s.k, s.pos, p)
	s.pos += cell.PayloadLen
}

// vectorCounter is wideCounter on 256-bit registers.
//
//go:noescape
func vectorCounter(k *roundKeys, pos uint64, p *[cell.PayloadLen]byte)
