package lang

// maxBlock bounds the product of the radices of one block: below 2^62 the
// estimates in alphabet.emit are too small by at most one.
const maxBlock = 1 << 62

// A chain is a run of positions up to the end of a slice where the alphabet of
// each position does not depend on the symbols before it. The rest of the word is
// then a number in a fixed mixed radix.
type chain struct {
	end   int         // the slice's length
	from  int         // first position of the chain
	alpha []*alphabet // backwards: alpha[k] is the alphabet of position end-1-k
	// blocks cover the chain backwards from its end. Each has as many positions
	// as fit into a limb.
	blocks []block
	// bytesFrom is the first position of the longest end of the chain in which every
	// position allows every byte.
	bytesFrom int
}

// A block is a run of neighbouring positions of a chain.
type block struct {
	start, end int
	div        divisor
	log2       int       // of the divisor, or -1
	alpha      *alphabet // of every position, or nil if they differ
}

// at returns the alphabet of position i.
func (ch *chain) at(i int) *alphabet { return ch.alpha[ch.end-1-i] }

// finish computes the blocks once the chain has its final length.
func (ch *chain) finish() {
	ch.bytesFrom = ch.end
	for ch.bytesFrom > ch.from && ch.bytes(ch.bytesFrom-1) {
		ch.bytesFrom--
	}
	for end := ch.end; end > ch.from; {
		b := block{start: end, end: end, alpha: ch.at(end - 1)}
		product := uint64(1)
		literal := b.alpha.size == 1
		for b.start > ch.from {
			a := ch.at(b.start - 1)
			// Literals have blocks of their own, so that more of the other blocks
			// have one alphabet.
			if product > maxBlock/uint64(a.size) || (a.size == 1) != literal {
				break
			}
			if a != b.alpha {
				b.alpha = nil
			}
			product *= uint64(a.size)
			b.start--
		}
		b.div, b.log2 = newDivisor(product), -1
		if product&(product-1) == 0 {
			b.log2 = 63 - int(b.div.shift)
		}
		ch.blocks = append(ch.blocks, b)
		end = b.start
	}
}

// bytes reports whether position i allows every byte in ascending order.
func (ch *chain) bytes(i int) bool {
	a := ch.at(i)
	return a.size == 256 && a.symbols == identity
}

// identity is the alphabet of all bytes in ascending order.
var identity = func() (s [256]byte) {
	for i := range s {
		s[i] = byte(i)
	}
	return s
}()

// emit writes the digits of v over positions lo to hi of dst.
func (ch *chain) emit(dst []byte, b *block, lo int, v uint64) {
	if b.alpha != nil {
		b.alpha.emit(dst[lo:b.end], v)
		return
	}
	for i := b.end - 1; i >= lo; i-- {
		a := ch.at(i)
		if a.size == 1 {
			dst[i] = a.symbols[0]
			continue
		}
		dst[i] = a.symbols[v%uint64(a.size)]
		v /= uint64(a.size)
	}
}

// parse is the inverse of emit.
func (ch *chain) parse(word []byte, b *block, lo int) (v uint64, ok bool) {
	if b.alpha != nil {
		return b.alpha.parse(word[lo:b.end])
	}
	for i := lo; i < b.end; i++ {
		a := ch.at(i)
		d := a.digit[word[i]]
		if d == noSymbol {
			return 0, false
		}
		v = v*uint64(a.size) + uint64(d)
	}
	return v, true
}

// unrank writes number c over positions i to the end of dst. It destroys c.
func (ch *chain) unrank(dst []byte, i int, c []uint64) {
	if i >= ch.bytesFrom {
		toBytes(dst[i:ch.end], c)
		return
	}
	shift := 0 // low bits of c that are used up
	for k := range ch.blocks {
		b := &ch.blocks[k]
		if b.end <= i {
			return
		}
		lo := max(b.start, i)
		if b.log2 >= 0 {
			ch.emit(dst, b, lo, window(c, shift)&(1<<uint(b.log2)-1))
			shift += b.log2
			continue
		}
		if shift > 0 {
			shiftRight(c, shift)
			shift = 0
		}
		c = trim(c)
		if len(c) == 0 {
			ch.emit(dst, b, lo, 0)
		} else {
			ch.emit(dst, b, lo, b.div.divide(c))
		}
	}
}

// rank adds the number of positions i to the end of word to c. tmp is scratch
// space of the length of c. rank returns false if the word is not in the
// language.
func (ch *chain) rank(c, tmp []uint64, word []byte, i int) bool {
	if i >= ch.bytesFrom {
		k := (ch.end - i + 7) / 8
		fromBytes(tmp[:k], word[i:ch.end])
		addMul(c, tmp[:k], 1)
		return true
	}
	k := len(ch.blocks) - 1
	for ch.blocks[k].end <= i {
		k--
	}
	n := 0 // limbs of tmp in use
	for ; k >= 0; k-- {
		b := &ch.blocks[k]
		v, ok := ch.parse(word, b, max(b.start, i))
		if !ok {
			return false
		}
		if b.div.value == 1 {
			continue
		}
		n = mulAdd(tmp, n, b.div.value, v)
	}
	addMul(c, tmp[:n], 1)
	return true
}
