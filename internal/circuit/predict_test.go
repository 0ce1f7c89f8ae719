package circuit

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
)

// lengths notes how many bytes each DATA cell of a stream has.
type lengths struct {
	deaf
	all []int
}

func (l *lengths) HandleMessage(m cell.RelayMsg, _ time.Time) error {
	l.all = append(l.all, len(m.Data))
	return nil
}

// TestSendmesCannotBePredicted: of the cells that one SENDME acknowledges, one at least has 16
// random bytes in its padding, however much there is to send. Otherwise a peer that knows the
// data, because it wrote it, computes the tags, and acknowledges what it has not received.
func TestSendmesCannotBePredicted(t *testing.T) {
	for name, o := range map[string]HopOptions{"fixed": {}, "vegas": {Congestion: true}, "cgo": {Congestion: true, CGO: true}} {
		t.Run(name, func(t *testing.T) {
			onRig(t, func(r *rig) {
				h := r.circuit(o, nil).Last()
				got := new(lengths)
				if err := r.last().Last().AcceptStream(1, got); err != nil {
					t.Fatal(err)
				}
				most, inc := h.Info().MaxData, h.Info().SendmeInc
				data := make([]byte, 450*most)
				w := NewWaiter()
				for i := 0; len(data) > 0; i++ {
					n, _, err := h.SendData(w, 1, data, len(data))
					if err != nil || i > 1000 {
						t.Fatal(len(data), err)
					}
					data = data[n:]
					synctest.Wait()
				}
				for at := 0; at+inc <= len(got.all); at += inc {
					room := 0
					for _, n := range got.all[at : at+inc] {
						room = max(room, most-n)
					}
					if room < 4+16 {
						t.Errorf("cells %d to %d have %d bytes of padding at most", at, at+inc-1, room)
					}
				}
				if len(got.all) < 450 || len(got.all) > 465 {
					t.Errorf("%d cells for the data of 450", len(got.all))
				}
			})
		})
	}
}
