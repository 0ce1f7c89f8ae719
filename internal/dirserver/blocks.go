package dirserver

import "github.com/chivenet/chive/internal/account"

// blockSize is the size of a block, and chunkBlocks how many a chunk has that comes from the system at once.
// A text wastes half a block on average.
const (
	blockSize   = 1 << 10
	chunkBlocks = 1 << 10
	chunkSize   = blockSize * chunkBlocks
)

// blockCost is what a block takes: itself, its place in its text, and whose it is.
const blockCost = blockSize + 32

// blocks keep texts that stay for hours, outside Go's heap: there, the collector would let garbage grow to
// as much as all of them. The texts lie in blocks one after the other, without a hole. When a text goes, the
// last blocks move into its place. So nobody may refer to a text while it is kept: get copies.
//
// The zero value is ready. Its user has a lock.
type blocks struct {
	chunks [][]byte
	of     []blockOf // the blocks in use
}

// blockOf says which block of a text this is.
type blockOf struct {
	text *blockText
	i    int32
}

// blockText is where a text is.
type blockText struct {
	at   []uint32
	size int
}

func blocksOf(size int) int { return (size + blockSize - 1) / blockSize }

func (b *blocks) block(i uint32) []byte {
	at := int(i%chunkBlocks) * blockSize
	return b.chunks[i/chunkBlocks][at : at+blockSize]
}

// put copies a text into blocks. On an error nothing is kept: the system has no memory.
func (b *blocks) put(t *blockText, text []byte) error {
	n := blocksOf(len(text))
	for len(b.of)+n > len(b.chunks)*chunkBlocks {
		c, err := mapChunk(chunkSize)
		if err != nil {
			return err
		}
		b.chunks = append(b.chunks, c)
		account.Outside(chunkSize)
	}
	t.at, t.size = make([]uint32, n), len(text)
	for i := range t.at {
		at := uint32(len(b.of))
		t.at[i] = at
		b.of = append(b.of, blockOf{t, int32(i)})
		copy(b.block(at), text[i*blockSize:])
	}
	return nil
}

// get returns a copy of a text.
func (b *blocks) get(t *blockText) []byte {
	out := make([]byte, 0, t.size)
	for _, at := range t.at {
		out = append(out, b.block(at)[:min(blockSize, t.size-len(out))]...)
	}
	return out
}

// drop forgets a text.
func (b *blocks) drop(t *blockText) {
	for i := len(t.at) - 1; i >= 0; i-- { // from the end, where the text's own blocks may be the last ones
		hole, last := t.at[i], uint32(len(b.of)-1)
		if hole != last {
			copy(b.block(hole), b.block(last))
			moved := b.of[last]
			moved.text.at[moved.i] = hole
			b.of[hole] = moved
		}
		b.of[last] = blockOf{}
		b.of = b.of[:last]
	}
	t.at, t.size = nil, 0
	if len(b.of) < cap(b.of)/4 {
		b.of = append([]blockOf(nil), b.of...)
	}
	b.trim(1)
}

// trim gives chunks back that no block is in, but for some to spare.
func (b *blocks) trim(spare int) {
	used := (len(b.of)+chunkBlocks-1)/chunkBlocks + spare
	for n := len(b.chunks); n > used; n-- {
		c := b.chunks[n-1]
		b.chunks[n-1], b.chunks = nil, b.chunks[:n-1]
		unmapChunk(c)
		account.Outside(-chunkSize)
	}
}
