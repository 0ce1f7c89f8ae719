package equix

// Sizes of the solver's tables. A bucket has 256 items on average, with a standard deviation of 16;
// items that find their bucket full are lost, which happens in one solution of ten thousand.
const (
	buckets   = 256
	bucketLen = 336
)

// table has the sums of one layer: hashes of single indices, sums of pairs, or sums of four. The low bits of these sums
// are zero, and are not kept. The next 8 bits select the bucket. An item has all bits above these, up to the sum's bit 59, at its
// upper end, so that they add up modulo 2^60 by themselves; and a reference at its lower end.
type table struct {
	n     [buckets]uint16
	items [buckets][bucketLen]uint64
}

// Where the bits of a sum begin in an item of each layer. With each layer 15 more bits are zero.
const (
	singleAt = 64 - (fullBits - bucketBits)
	pairAt   = singleAt + pairBits
	quadAt   = pairAt + pairBits
)

const (
	bucketBits = 8
	chainBits  = pairBits - bucketBits // of the bits that must add up to zero, those that the bucket does not know
)

// add puts an item into a bucket.
func (t *table) add(bucket uint8, item uint64) {
	if n := t.n[bucket]; n < bucketLen {
		t.items[bucket][n] = item
		t.n[bucket] = n + 1
	}
}

// bucket returns the items of a bucket.
func (t *table) bucket(b uint8) []uint64 {
	return t.items[b][:min(t.n[b], bucketLen)]
}

// opposite returns the bucket of the items whose sums with those of bucket b end in 8 zero bits.
func opposite(b uint8) uint8 { return -b }

// A reference names two items of the layer below, whose sum an item is: one is at place i of
// bucket b, the other at place j of the opposite bucket. It has 26 bits.
func reference(b uint8, i, j int) uint64 { return uint64(b)<<18 | uint64(i)<<9 | uint64(j) }

// parts returns the two items of a reference: their buckets and places.
func parts(item uint64) (b uint8, i int, o uint8, j int) {
	b = uint8(item >> 18)
	return b, int(item >> 9 & 511), opposite(b), int(item & 511)
}

// chains finds the items of one bucket by the bits that follow the bucket's.
type chains struct {
	head [1 << chainBits]uint16 // the place of the newest item plus one; 0: none
	next [bucketLen]uint16      // the same, for the item before it
}

// fill takes the items of a bucket.
func (c *chains) fill(items []uint64, at uint) {
	clear(c.head[:])
	for i, x := range items {
		h := &c.head[x>>(at&63)%(1<<chainBits)]
		c.next[i] = *h
		*h = uint16(i + 1)
	}
}
