package lang

import (
	"math/bits"
	"unsafe"
)

// noSymbol marks a byte that is not in an alphabet.
const noSymbol = 0xffff

// An alphabet is the ordered set of symbols that may come next. Its size is
// the radix of the digit that the symbol stands for.
type alphabet struct {
	size    int
	log2    int // of size, or -1 if size is not a power of two
	symbols [256]byte
	digit   [256]uint16 // of a symbol, or noSymbol
	// pair holds two symbols for each number below size*size, the first in
	// the low byte; pairInv is floor(2^64 / size^2). Both serve emit.
	pair    []uint16
	pairDiv uint64
	pairInv uint64
}

// maxAlphabets bounds the alphabets of a language, in bytes. Each state of an
// automaton could have an alphabet of its own, of up to 128 KiB.
const maxAlphabets = 16 << 20

// bytes returns the memory of an alphabet, in bytes.
func (a *alphabet) bytes() int { return int(unsafe.Sizeof(alphabet{})) + 2*cap(a.pair) }

// alphabet returns the alphabet of some symbols, in order. Alphabets are shared,
// so equal ones are the same pointer. ok is false if all alphabets together would
// exceed maxAlphabets.
func (l *Language) alphabet(symbols []byte) (_ *alphabet, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a, ok := l.alphas[string(symbols)]; ok {
		return a, true
	}
	if l.alphaBytes > maxAlphabets {
		return nil, false
	}
	a := &alphabet{size: len(symbols), log2: -1}
	if a.size&(a.size-1) == 0 {
		a.log2 = bits.TrailingZeros(uint(a.size))
	}
	for b := range a.digit {
		a.digit[b] = noSymbol
	}
	copy(a.symbols[:], symbols)
	for i, b := range symbols {
		a.digit[b] = uint16(i)
	}
	if a.log2 < 0 {
		a.pairDiv = uint64(a.size * a.size)
		a.pairInv = ^uint64(0) / a.pairDiv
		a.pair = make([]uint16, a.pairDiv)
		for i := range a.pair {
			a.pair[i] = uint16(symbols[i/a.size]) | uint16(symbols[i%a.size])<<8
		}
	}
	l.alphas[string(symbols)] = a
	l.alphaBytes += a.bytes()
	return a, true
}

// emit writes the digits of v, the most significant first, over all of dst.
func (a *alphabet) emit(dst []byte, v uint64) {
	if a.log2 >= 0 {
		for i := len(dst) - 1; i >= 0; i-- {
			dst[i] = a.symbols[v&uint64(a.size-1)]
			v >>= uint(a.log2)
		}
		return
	}
	for len(dst) >= 2 {
		q, _ := bits.Mul64(v, a.pairInv)
		r := v - q*a.pairDiv
		if r >= a.pairDiv { // the estimate is too small by at most one
			r -= a.pairDiv
			q++
		}
		p := a.pair[r]
		dst[len(dst)-2], dst[len(dst)-1] = byte(p), byte(p>>8)
		dst = dst[:len(dst)-2]
		v = q
	}
	if len(dst) == 1 {
		dst[0] = a.symbols[v]
	}
}

// parse is the inverse of emit. ok is false if a byte is not a symbol.
func (a *alphabet) parse(word []byte) (v uint64, ok bool) {
	var bad uint16
	for _, b := range word {
		d := a.digit[b]
		bad |= d
		v = v*uint64(a.size) + uint64(d)
	}
	return v, bad&0x8000 == 0
}
