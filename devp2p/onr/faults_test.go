package onr

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/p2p/enode"
	"github.com/ethereum/go-ethereum/p2p/enr"
	"github.com/ethereum/go-ethereum/rlp"

	"github.com/chivenet/chive/devp2p"
	"github.com/chivenet/chive/devp2p/internal/nodetest"
)

// TestFaults sends what a peer must not send. Each is a disconnect with a reason, and is
// reported; the book stays as it was.
func TestFaults(t *testing.T) {
	peer := nodetest.Key(t)
	own := onionNode(t, peer, 5)
	forged := slices.Clone(bytesOf(t, own))
	forged[10] ^= 1 // in the signature
	foreign := onionNode(t, nodetest.Key(t), 1)
	wrongOnion := strings.Replace(onionA, "p", "q", 1)
	send := func(code uint64, v any) func(*testing.T, end) {
		return func(t *testing.T, e end) {
			if b, ok := v.([]byte); ok {
				_ = e.WriteMsg(p2p.Msg{Code: code, Size: uint32(len(b)), Payload: strings.NewReader(string(b))})
			} else {
				_ = p2p.Send(e, code, v)
			}
		}
	}
	// reply answers the question that the node asks at once.
	reply := func(f func(q ask) any) func(*testing.T, end) {
		return func(t *testing.T, e end) {
			var q ask
			e.next(t, askMsg, &q)
			_ = p2p.Send(e, tellMsg, f(q))
		}
	}
	records := func(r ...rlp.RawValue) func(*testing.T, end) {
		return reply(func(q ask) any { return tell{q.ID, r} })
	}
	for name, c := range map[string]struct {
		do   func(*testing.T, end)
		want string // in the error
	}{
		"code":             {send(3, self{}), "code 3"},
		"big self":         {send(selfMsg, make([]byte, maxSize[selfMsg]+1)), "more than"},
		"big question":     {send(askMsg, make([]byte, maxSize[askMsg]+1)), "more than"},
		"big answer":       {send(tellMsg, make([]byte, maxSize[tellMsg]+1)), "more than"},
		"no RLP":           {send(selfMsg, []byte{0xff, 1, 2}), "own record"},
		"empty":            {send(askMsg, []byte{}), "question"},
		"forged":           {send(selfMsg, self{forged}), "signature"},
		"another's":        {send(selfMsg, self{bytesOf(t, foreign)}), "another node"},
		"no onion":         {send(selfMsg, self{bytesOf(t, nodetest.Signed(t, peer, 1, enr.TCP(1)))}), "no onion"},
		"no port":          {send(selfMsg, self{bytesOf(t, nodetest.Signed(t, peer, 1, devp2p.Onion3(onionA)))}), "port"},
		"bad onion":        {send(selfMsg, self{bytesOf(t, nodetest.Signed(t, peer, 1, enr.WithEntry("onion3", wrongOnion), enr.TCP(1)))}), "onion3"},
		"bad fronts":       {send(selfMsg, self{bytesOf(t, onionNode(t, peer, 1, enr.WithEntry("fronts", make([]byte, 33))))}), "fronts"},
		"fronts itself":    {send(selfMsg, self{bytesOf(t, onionNode(t, peer, 1, Fronts(peer.PublicKey)))}), "itself"},
		"null scheme":      {send(selfMsg, self{mustRLP(t, enode.SignNull(onionNode(t, peer, 1).Record(), own.ID()).Record())}), "v4"},
		"ask for nothing":  {send(askMsg, ask{1, 0}), "0 records"},
		"ask for too much": {send(askMsg, ask{1, MaxRecords + 1}), "65 records"},
		"unasked":          {func(t *testing.T, e end) { records()(t, e); send(tellMsg, tell{1, nil})(t, e) }, "without a question"},
		"wrong answer":     {reply(func(q ask) any { return tell{q.ID + 1, nil} }), "another question"},
		"twice":            {records(bytesOf(t, foreign), bytesOf(t, foreign)), "two records"},
		"forged answer":    {records(forged), "signature"},
		"huge record":      {records(mustRLP(t, make([]byte, enr.SizeLimit+1))), "record"},
		"old self": {func(t *testing.T, e end) {
			go e.drain()
			send(selfMsg, self{bytesOf(t, own)})(t, e)
			send(selfMsg, self{bytesOf(t, own)})(t, e)
		}, "sequence number 5 after 5"},
		"selves": {func(t *testing.T, e end) {
			go e.drain()
			for i := range uint64(selfBurst + 1) {
				send(selfMsg, self{bytesOf(t, onionNode(t, peer, 10+i))})(t, e)
			}
		}, "own records too often"},
		"questions": {func(t *testing.T, e end) {
			go e.drain()
			for range askBurst + 1 {
				send(askMsg, ask{1, 1})(t, e)
			}
		}, "too often"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var reported error
				b := newBook(nil)
				e := start(t, b, Config{Report: func(_ enode.ID, _ int, err error) {
					if err != nil {
						reported = err
					}
				}}, peer)
				go func() {
					c.do(t, e)
					e.drain()
				}()
				if err := <-e.result; err != p2p.DiscProtocolError {
					t.Errorf("ended with %v", err)
				}
				if reported == nil || !strings.Contains(reported.Error(), c.want) {
					t.Errorf("reported %v, want %q", reported, c.want)
				}
				if b.seq(foreign.ID()) != 0 {
					t.Error("the book learned from a wrong message")
				}
			})
		})
	}
}

// TestSilence disconnects a peer that does not answer.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		e := start(t, newBook(nil), Config{}, nodetest.Key(t))
		go e.drain()
		<-e.result
		if d := time.Since(began); d != answerWithin {
			t.Errorf("disconnected after %v", d)
		}
	})
}

// TestStuckReader ends the session of a peer that reads nothing, once it breaks a rule.
func TestStuckReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := start(t, newBook(onionNode(t, nodetest.Key(t), 1)), Config{}, nodetest.Key(t))
		if err := p2p.Send(e, askMsg, ask{1, 0}); err != nil {
			t.Fatal(err)
		}
		if err := <-e.result; err != p2p.DiscProtocolError {
			t.Error(err)
		}
		if _, err := e.ReadMsg(); err == nil || errors.Is(err, io.EOF) {
			t.Error("the connection is open")
		}
	})
}

func FuzzMessages(f *testing.F) {
	key := nodetest.Key(f)
	n := onionNode(f, key, 1, Fronts(nodetest.Key(f).PublicKey))
	f.Add(uint64(selfMsg), mustRLP(f, self{bytesOf(f, n)}))
	f.Add(uint64(askMsg), mustRLP(f, ask{1, 64}))
	f.Add(uint64(tellMsg), mustRLP(f, tell{0, []rlp.RawValue{bytesOf(f, n), bytesOf(f, nodetest.Signed(f, key, 2, devp2p.Onion3(onionB), enr.TCP(1)))}}))
	f.Fuzz(func(t *testing.T, code uint64, b []byte) {
		msg := p2p.Msg{Code: code, Size: uint32(len(b)), Payload: strings.NewReader(string(b))}
		b, err := payload(msg)
		if err != nil {
			return
		}
		switch code {
		case selfMsg:
			if n, err := parseSelf(b); err == nil && !tellable(n) {
				t.Fatal("a record was taken that may not be told")
			}
		case askMsg:
			if q, err := parseAsk(b); err == nil && q.Max > MaxRecords {
				t.Fatal("a question for too many")
			}
		case tellMsg:
			nodes, err := parseTell(b, ask{0, MaxRecords})
			if err != nil {
				return
			}
			for _, n := range nodes {
				if raw, ok := encodeRecord(n); !ok || len(raw) > enr.SizeLimit {
					t.Fatal("a record was taken that may not be told")
				}
			}
		}
	})
}
