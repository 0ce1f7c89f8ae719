package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/log"
	"github.com/ethereum/go-ethereum/p2p"

	"github.com/chivenet/chive/program/programtest"
)

// TestRemote: the measuring side speaks with go-ethereum's server, and times all steps.
func TestRemote(t *testing.T) {
	programtest.NoLeaks(t)
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	srv := &p2p.Server{Config: p2p.Config{PrivateKey: key, MaxPeers: 2, NoDial: true, NoDiscovery: true, Protocols: []p2p.Protocol{protocol()},
		Logger: log.NewLogger(slog.DiscardHandler)}}
	if err := srv.Start(); err != nil {
		t.Fatal(err)
	}
	defer srv.Stop()
	dial := func(context.Context) (net.Conn, error) {
		a, b := net.Pipe()
		go srv.SetupConn(b, 4, nil)
		return a, nil
	}
	r, s, err := connect(t.Context(), dial, &key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	if s.RLPx <= 0 || s.Hello <= 0 || s.Status <= 0 || s.Total() < s.RLPx+s.Hello+s.Status {
		t.Errorf("%+v", s)
	}
	if _, err := r.echo(make([]byte, 100)); err != nil {
		t.Error(err)
	}
	if _, err := r.get(3*chunk + 17); err != nil {
		t.Error(err)
	}
	held := make(chan struct{})
	go func() { r.hold(); close(held) }()
	r.conn.Close()
	<-held
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := connect(ctx, func(context.Context) (net.Conn, error) {
		a, _ := net.Pipe() // nobody answers
		return a, nil
	}, &key.PublicKey); err == nil {
		t.Error("a connection after the context's end")
	}
}

// TestReport: the tables, the comparison, JSON that reads back, and figures.
func TestReport(t *testing.T) {
	result := func(k Kind, slow time.Duration) Result {
		return Result{Kind: k, Setup: []Stages{{slow, slow, slow, slow}}, Echo: []time.Duration{slow, 2 * slow, 3 * slow},
			Bytes: 1e6, Download: slow, Peers: []Usage{{Peers: 10, RSS: 20e6, CPU: time.Second, Over: 100 * time.Second}}}
	}
	results := []Result{result(Clear, time.Millisecond), result(Chive, 10*time.Millisecond), result(Tor, 40*time.Millisecond)}
	var b bytes.Buffer
	if err := WriteText(&b, results); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"160ms", "100.0 MB/s", "20.0 MB", "1.00 % of a core", "against tor: a connection takes 0.25 of the time, ping-pong 0.25", "4.0 times"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, &b)
		}
	}
	b.Reset()
	var back []Result
	if err := errors.Join(WriteJSON(&b, results), json.Unmarshal(b.Bytes(), &back)); err != nil || len(back) != 3 || back[2].Setup[0] != results[2].Setup[0] {
		t.Errorf("%v, %+v", err, back)
	}
	dir := t.TempDir()
	if err := WriteFigures(dir, results); err != nil {
		t.Fatal(err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 6 {
		t.Errorf("%v, %v", files, err)
	}
	if err := WriteText(&b, nil); err != nil {
		t.Error(err)
	}
}
