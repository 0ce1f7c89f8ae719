package bench

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/p2p/enode"
	"github.com/ethereum/go-ethereum/p2p/rlpx"
	"github.com/ethereum/go-ethereum/rlp"
)

// The first messages of RLPx's own protocol.
const (
	msgHello = iota
	msgDisconnect
	msgPing
	msgPong
)

// hello is RLPx's first message.
type hello struct {
	Version    uint64
	Name       string
	Caps       []p2p.Cap
	ListenPort uint64
	ID         []byte
	Rest       []rlp.RawValue `rlp:"tail"`
}

// Stages is how long the steps of a connection took.
type Stages struct {
	Connect time.Duration `json:"connect_ns"` // TCP, or the onion
	RLPx    time.Duration `json:"rlpx_ns"`
	Hello   time.Duration `json:"hello_ns"`
	Status  time.Duration `json:"status_ns"`
}

// Total is the sum.
func (s Stages) Total() time.Duration { return s.Connect + s.RLPx + s.Hello + s.Status }

// remote is the measuring side of a connection.
type remote struct {
	conn net.Conn
	rlpx *rlpx.Conn
	stop func() // of what closes it when a context ends; nil: nothing does
}

// close ends the connection.
func (r *remote) close() {
	if r.stop != nil {
		r.stop()
	}
	r.conn.Close()
}

// connect connects and does the handshakes, and times the steps.
func connect(ctx context.Context, dial func(context.Context) (net.Conn, error), to *ecdsa.PublicKey) (_ *remote, s Stages, err error) {
	began := time.Now()
	step := func(d *time.Duration) {
		now := time.Now()
		*d, began = now.Sub(began), now
	}
	conn, err := dial(ctx)
	if err != nil {
		return nil, s, err
	}
	step(&s.Connect)
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer func() {
		stop()
		if err != nil {
			conn.Close()
		}
	}()
	r := &remote{conn: conn, rlpx: rlpx.NewConn(conn, to)}
	key, err := crypto.GenerateKey()
	if err != nil {
		return nil, s, err
	}
	if _, err := r.rlpx.Handshake(key); err != nil {
		return nil, s, fmt.Errorf("RLPx: %w", err)
	}
	step(&s.RLPx)
	if err := r.send(msgHello, &hello{Version: 5, Name: "bench", Caps: []p2p.Cap{{Name: "bench", Version: 1}}, ID: crypto.FromECDSAPub(&key.PublicKey)[1:]}); err != nil {
		return nil, s, err
	}
	code, data, _, err := r.rlpx.Read()
	if err != nil {
		return nil, s, err
	}
	var theirs hello
	if code != msgHello {
		return nil, s, fmt.Errorf("message %d, no hello", code)
	}
	if err := rlp.DecodeBytes(data, &theirs); err != nil {
		return nil, s, err
	}
	r.rlpx.SetSnappy(true)
	step(&s.Hello)
	if err := r.send(baseMsgs+msgStatus, &status{Version: 69, NetworkID: 1}); err != nil {
		return nil, s, err
	}
	if _, err := r.receive(baseMsgs + msgStatus); err != nil {
		return nil, s, err
	}
	step(&s.Status)
	return r, s, nil
}

func (r *remote) send(code uint64, v any) error {
	b, err := rlp.EncodeToBytes(v)
	if err != nil {
		return err
	}
	_, err = r.rlpx.Write(code, b)
	return err
}

// receive returns the next message, which must have a code. It answers pings.
func (r *remote) receive(want uint64) ([]byte, error) {
	for {
		code, data, _, err := r.rlpx.Read()
		switch {
		case err != nil:
			return nil, err
		case code == want:
			return data, nil
		case code == msgPing:
			if _, err := r.rlpx.Write(msgPong, []byte{0xc0}); err != nil {
				return nil, err
			}
		case code == msgDisconnect:
			return nil, errors.New("the node has sent this peer away")
		case code != msgPong:
			return nil, fmt.Errorf("message %d", code)
		}
	}
}

// echo is a round trip of a small message.
func (r *remote) echo(b []byte) (time.Duration, error) {
	began := time.Now()
	if err := r.send(baseMsgs+msgEcho, b); err != nil {
		return 0, err
	}
	_, err := r.receive(baseMsgs + msgEcho)
	return time.Since(began), err
}

// get fetches n bytes.
func (r *remote) get(n int64) (time.Duration, error) {
	began := time.Now()
	if err := r.send(baseMsgs+msgGet, uint64(n)); err != nil {
		return 0, err
	}
	for n > 0 {
		part, err := r.part()
		if err != nil {
			return 0, err
		}
		n -= int64(part)
	}
	return time.Since(began), nil
}

// window is what load asks for at a time, twice: so there is always an answer on its way.
const window = 128 << 10

// load downloads until the deadline, and returns how many bytes came until then. The
// connection can be used after that. After pace, if that is not zero, it asks for the
// next window.
func (r *remote) load(until time.Time, pace time.Duration) (got int64, err error) {
	ask, ahead := time.Now(), 2
	if pace > 0 {
		ahead = 1
	}
	asked := 0
	for time.Now().Before(until) || asked > 0 {
		for asked < ahead && time.Now().Before(until) {
			if err := r.send(baseMsgs+msgGet, uint64(window)); err != nil {
				return got, err
			}
			asked++
		}
		for left := window; left > 0; {
			n, err := r.part()
			if err != nil {
				return got, err
			}
			left -= n
			if time.Now().Before(until) {
				got += int64(n)
			}
		}
		asked--
		if pace > 0 {
			ask = ask.Add(pace)
			if late := time.Since(ask); late > 0 {
				ask = ask.Add(late) // what could not be sent in time is not made up for
			} else {
				<-time.After(min(-late, time.Until(until)))
			}
		}
	}
	return got, nil
}

// part reads one message of a download and returns its size.
func (r *remote) part() (int, error) {
	data, err := r.receive(baseMsgs + msgData)
	if err != nil {
		return 0, err
	}
	_, content, _, err := rlp.Split(data)
	if err != nil || len(content) == 0 {
		return 0, errors.New("a malformed answer")
	}
	return len(content), nil
}

// pubkey returns a node's key.
func pubkey(n *enode.Node) (*ecdsa.PublicKey, error) {
	k := n.Pubkey()
	if k == nil {
		return nil, errors.New("a record without a key")
	}
	return k, nil
}
