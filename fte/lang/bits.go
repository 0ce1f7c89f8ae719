package lang

import "encoding/binary"

// If a state has 2^k symbols and all lead back to it, coding is bit packing: a
// chunk of n bytes becomes ceil(8n/k) symbols, the first from the highest bits.

// bitSymbols returns how many symbols carry n bytes.
func (a *alphabet) bitSymbols(n int) int { return (8*n + a.log2 - 1) / a.log2 }

// appendBits appends the symbols of src; padding fills the last one.
func (a *alphabet) appendBits(dst, src []byte, padding uint64) []byte {
	at, n := len(dst), a.bitSymbols(len(src))
	dst = grow(dst, n)
	out := dst[at:]
	k := uint(a.log2)
	if k == 8 {
		if a.symbols == identity {
			copy(out, src)
			return dst
		}
		for i, b := range src {
			out[i] = a.symbols[b]
		}
		return dst
	}
	// Eight symbols carry k bytes; the window below reads eight.
	mask := byte(1<<k - 1)
	for len(src) >= 8 {
		v := binary.BigEndian.Uint64(src) >> (64 - 8*k)
		o := out[:8]
		o[7] = a.symbols[byte(v)&mask]
		o[6] = a.symbols[byte(v>>k)&mask]
		o[5] = a.symbols[byte(v>>(2*k))&mask]
		o[4] = a.symbols[byte(v>>(3*k))&mask]
		o[3] = a.symbols[byte(v>>(4*k))&mask]
		o[2] = a.symbols[byte(v>>(5*k))&mask]
		o[1] = a.symbols[byte(v>>(6*k))&mask]
		o[0] = a.symbols[byte(v>>(7*k))&mask]
		src, out = src[k:], out[8:]
	}
	var last [16]byte
	binary.BigEndian.PutUint64(last[copy(last[:], src):], padding)
	for i := range out {
		at := uint(i) * k
		v := uint16(last[at>>3])<<8 | uint16(last[at>>3+1])
		out[i] = a.symbols[byte(v>>(16-k-at&7))&mask]
	}
	return dst
}

// readBits is the inverse of appendBits: it fills dst from word, which has at
// least bitSymbols(len(dst)) symbols. It returns how many symbols are valid, and
// whether they fill dst.
func (a *alphabet) readBits(dst, word []byte) (n int, ok bool) {
	n = a.bitSymbols(len(dst))
	word = word[:n]
	k := uint(a.log2)
	if k == 8 {
		for i, b := range word {
			dst[i] = byte(a.digit[b]) // every byte is a symbol
		}
		return n, true
	}
	done := 0
	for len(dst) >= 8 {
		w := word[done : done+8]
		d0, d1, d2, d3 := a.digit[w[0]], a.digit[w[1]], a.digit[w[2]], a.digit[w[3]]
		d4, d5, d6, d7 := a.digit[w[4]], a.digit[w[5]], a.digit[w[6]], a.digit[w[7]]
		if (d0|d1|d2|d3|d4|d5|d6|d7)&0x8000 != 0 {
			break
		}
		v := uint64(d0)<<(7*k) | uint64(d1)<<(6*k) | uint64(d2)<<(5*k) | uint64(d3)<<(4*k) |
			uint64(d4)<<(3*k) | uint64(d5)<<(2*k) | uint64(d6)<<k | uint64(d7)
		binary.BigEndian.PutUint64(dst, v<<(64-8*k))
		dst, done = dst[k:], done+8
	}
	var v, have uint
	for i, b := range word[done:] {
		d := a.digit[b]
		if d == noSymbol {
			return done + i, false
		}
		v, have = v<<k|uint(d), have+k
		if have >= 8 && len(dst) > 0 {
			have -= 8
			dst[0] = byte(v >> have)
			dst = dst[1:]
		}
	}
	return n, true
}

// grow lengthens dst by n bytes whose content does not matter.
func grow(dst []byte, n int) []byte {
	if cap(dst)-len(dst) < n {
		dst = append(dst, make([]byte, n)...)
		return dst
	}
	return dst[:len(dst)+n]
}
