package simnet_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/simnet"
)

var here, there = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddrPort("10.0.0.2:9001")

// TestNetwork: connections in memory are as those of a kernel, as far as links
// care: they have room, deadlines and two ends, each of which may close.
func TestNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.NewNetwork()
		dial := n.Dialer(here)
		if _, err := dial(t.Context(), there); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Error("nobody listens: ", err)
		}
		ln, err := n.Listen(there)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := n.Listen(there); !errors.Is(err, syscall.EADDRINUSE) {
			t.Error("listened twice: ", err)
		}
		a, err := dial(t.Context(), there)
		if err != nil {
			t.Fatal(err)
		}
		b, err := ln.Accept()
		if err != nil || b.RemoteAddr().(*net.TCPAddr).AddrPort().Addr() != here || a.RemoteAddr().String() != there.String() {
			t.Fatal(err, b.RemoteAddr(), a.RemoteAddr())
		}
		if open := n.Open()[simnet.Dialled{From: here, To: there}]; open != 1 || len(n.Dials()) != 2 {
			t.Errorf("%d are open, %v were asked for", open, n.Dials())
		}
		// More than there is room for: the writer waits, and then for no longer than
		// its deadline.
		sent := bytes.Repeat([]byte("0123456789"), 1<<16)
		go func() {
			if got, err := io.ReadAll(io.LimitReader(b, int64(len(sent)))); err != nil || !bytes.Equal(got, sent) {
				t.Error(len(got), err)
			}
		}()
		if _, err := a.Write(sent); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		began := time.Now()
		_ = a.SetWriteDeadline(began.Add(time.Minute))
		if k, err := a.Write(sent); !errors.Is(err, os.ErrDeadlineExceeded) || k == 0 || k == len(sent) || time.Since(began) != time.Minute {
			t.Error(k, err, time.Since(began))
		}
		_ = a.SetDeadline(time.Now().Add(-time.Second))
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
		// What was written before the end arrives; what is written to who has closed
		// fails.
		_ = a.Close()
		if got, err := io.ReadAll(b); err != nil || len(got) == 0 {
			t.Error(len(got), err)
		}
		if _, err := b.Write([]byte{1}); !errors.Is(err, syscall.EPIPE) {
			t.Error(err)
		}
		if _, err := a.Write([]byte{1}); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		if len(n.Open()) != 0 {
			t.Error("still open: ", n.Open())
		}
		// A dialler that is not accepted learns that the listener has ended.
		late, err := dial(t.Context(), there)
		if err != nil {
			t.Fatal(err)
		}
		_ = ln.Close()
		if _, err := late.Read(make([]byte, 1)); err != io.EOF {
			t.Error(err)
		}
		_ = late.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := dial(ctx, netip.AddrPortFrom(simnet.Silent.Addr(), 1)); !errors.Is(err, context.DeadlineExceeded) {
			t.Error("somebody answers: ", err)
		}
	})
}
