package circuit

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"testing"
	"testing/synctest"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/linkspec"
)

// hsEnd is the end of a circuit at a client or service, and what has come to it.
type hsEnd struct {
	r   *rig
	c   *Circuit
	got []cell.RelayMsg

	gate chan struct{} // not nil: what comes is taken once it is closed
}

// hsCircuit makes a circuit to the relay over a link.
func (r *rig) hsCircuit(link *channel.Channel, o HopOptions) *hsEnd {
	r.t.Helper()
	e := &hsEnd{r: r}
	e.c = r.circuitOver(link, o, func(_ *Hop, m cell.RelayMsg) {
		if e.gate != nil {
			<-e.gate
		}
		m.Data = bytes.Clone(m.Data)
		e.got = append(e.got, m)
	})
	return e
}

// say sends a message to the relay and waits for what comes of it.
func (e *hsEnd) say(cmd cell.RelayCommand, body []byte) {
	e.r.t.Helper()
	if err := e.c.Hops()[0].Send(cmd, 0, body); err != nil {
		e.r.t.Fatal(err)
	}
	synctest.Wait()
}

// heard checks which message came next, and returns its body.
func (e *hsEnd) heard(cmd cell.RelayCommand) []byte {
	e.r.t.Helper()
	if len(e.got) == 0 || e.got[0].Cmd != cmd {
		e.r.t.Fatalf("%v did not come: %v; %v", cmd, e.got, e.c.Err())
	}
	m := e.got[0]
	e.got = e.got[1:]
	return m.Data
}

// silent checks that nothing else came.
func (e *hsEnd) silent() {
	e.r.t.Helper()
	if len(e.got) > 0 {
		e.r.t.Errorf("unexpected: %v", e.got)
	}
}

func (e *hsEnd) lives() bool { return e.c.Err() == nil }

func (e *hsEnd) close() {
	e.c.Close(cell.DestroyNone, fault.New(fault.Closed, "test"))
	synctest.Wait()
}

// establishIntro returns a message for an authentication key on a circuit.
func (e *hsEnd) establishIntro(key ed25519.PrivateKey, exts ...cell.Ext) []byte {
	m := cell.EstablishIntro{AuthKey: [32]byte(key.Public().(ed25519.PublicKey)), Exts: exts}
	kh := e.c.Hops()[0].Info().KH
	m.MAC = handshake.HSMAC(kh[:], m.AppendMACed(nil))
	copy(m.Sig[:], ed25519.Sign(key, append([]byte(cell.EstablishIntroSigPrefix), m.AppendSigned(nil)...)))
	return m.Append(nil)
}

// introduce1 returns a message for a key, of n bytes in all.
func introduction(key ed25519.PrivateKey, n int) []byte {
	m := cell.Introduce{AuthKey: [32]byte(key.Public().(ed25519.PublicKey))}
	b := m.AppendHeader(nil)
	return append(b, bytes.Repeat([]byte{7}, n-len(b))...)
}

func hsKey(t *testing.T) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// introduced makes a circuit of one INTRODUCE1 and returns the relay's answer.
func (r *rig) introduced(body []byte) cell.IntroduceStatus {
	r.t.Helper()
	e := r.hsCircuit(r.beyond, congested)
	defer e.close()
	e.say(cell.RelayIntroduce1, body)
	ack, err := cell.ParseIntroduceAck(e.heard(cell.RelayIntroduceAck))
	if err != nil {
		r.t.Fatal(err)
	}
	e.silent()
	return ack.Status
}

var identityOfNobody = linkspec.Target{}.RelayID

func init() { identityOfNobody.RSA[0], identityOfNobody.Ed[0] = 1, 1 }
