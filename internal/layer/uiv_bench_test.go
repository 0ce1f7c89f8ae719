package layer

import (
	"testing"

	"github.com/chivenet/chive/internal/cell"
)

// Each form of the wide-block cipher: a cell that passes, and one that takes new
// keys.
func BenchmarkUIV(b *testing.B) {
	for _, f := range forms {
		for _, s := range []sense{encrypts, decrypts} {
			u := f.make(s)
			var chain [16]byte
			var p [cell.PayloadLen]byte
			u.setKeys(new([uivKeyLen]byte))
			name := f.name + map[sense]string{encrypts: "/encrypt", decrypts: "/decrypt"}[s]
			b.Run(name, func(b *testing.B) {
				b.SetBytes(cell.PayloadLen)
				for b.Loop() {
					u.crypt(&chain, cell.CmdRelay, &p)
				}
			})
			b.Run(name+"+rekey", func(b *testing.B) {
				b.SetBytes(cell.PayloadLen)
				for b.Loop() {
					u.crypt(&chain, cell.CmdRelay, &p)
					u.rekey(&chain)
				}
			})
		}
	}
}
