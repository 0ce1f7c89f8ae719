package dirserver

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/chivenet/chive/internal/account"
)

// outside returns the memory outside Go's heap that the process counts. No test of this package runs beside another.
func outside(t testing.TB) (now int64) {
	t.Helper()
	account.HearOutside(func(bytes int64) { now = bytes })
	account.HearOutside(nil)
	return now
}

// TestBlocks: every text is what it was, whichever others come and go, there is no hole, and memory goes back.
func TestBlocks(t *testing.T) {
	base := outside(t)
	for seed := range uint64(3) {
		r := rand.New(rand.NewPCG(seed, 1))
		var b blocks
		type kept struct {
			blockText
			want []byte
		}
		var all []*kept
		most := 0
		check := func() {
			t.Helper()
			n := 0
			for _, k := range all {
				n += blocksOf(k.size)
				if got := b.get(&k.blockText); !bytes.Equal(got, k.want) {
					t.Fatalf("a text of %d bytes has changed", len(k.want))
				}
			}
			if n != len(b.of) || len(b.chunks) > (n+chunkBlocks-1)/chunkBlocks+1 {
				t.Fatalf("%d blocks in %d chunks, %d are needed", len(b.of), len(b.chunks), n)
			}
			if got := outside(t) - base; got != int64(len(b.chunks))*chunkSize {
				t.Fatalf("%d bytes are counted, with %d chunks", got, len(b.chunks))
			}
		}
		drop := func(i int) {
			b.drop(&all[i].blockText)
			all[i] = all[len(all)-1]
			all = all[:len(all)-1]
		}
		for step := range 2000 {
			if len(all) > 0 && r.IntN(5) < 2 {
				drop(r.IntN(len(all)))
			} else {
				k := &kept{want: make([]byte, r.IntN(8*blockSize))}
				for i := range k.want {
					k.want[i] = byte(r.Uint32())
				}
				if err := b.put(&k.blockText, k.want); err != nil {
					t.Fatal(err)
				}
				all = append(all, k)
			}
			if most = max(most, len(b.chunks)); step%100 == 0 {
				check()
			}
		}
		if most < 2 {
			t.Errorf("all fit into %d chunk", most)
		}
		for len(all) > 0 {
			drop(r.IntN(len(all)))
			if len(all)%50 == 0 {
				check()
			}
		}
		b.trim(0)
		if check(); outside(t) != base {
			t.Error("memory is kept for nothing")
		}
	}
}
