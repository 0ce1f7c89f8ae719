package stream_test

import (
	"bytes"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/simnet"
	"github.com/chivenet/chive/internal/stream"
)

// TestJoinEndsWithTheStream: a program that keeps its side open after END does not keep the
// pump, whether its end of the data came by END or before.
func TestJoinEndsWithTheStream(t *testing.T) {
	for _, half := range []bool{false, true} {
		h := newTargets(t)
		h.half = half
		c := build(t, client(t), kinds["vegas cgo"], simnet.New(t, simnet.Options{Proto: halves, Streams: h}))
		j := join2(t, h, c)
		pass(t, j.program, j.target, "question")
		pass(t, j.target, j.program, "answer")
		j.target.CloseWrite()
		if n, err := j.program.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Fatal(n, err)
		}
		if half { // the exit notices that the target is gone
			j.target.SetLinger(0)
			j.target.Close()
			if _, err := j.program.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case <-j.done:
		case <-time.After(15 * time.Second):
			t.Error("the joint stays; HALF_CLOSE: ", half)
			j.program.Close()
			<-j.done
		}
		<-h.done
	}
}

// TestEndAfterData: what came before END is written as a whole, although what the
// connection still says cannot be sent any more.
func TestEndAfterData(t *testing.T) {
	long := bytes.Repeat([]byte("long message"), 20<<10) // more than these sockets hold
	for _, up := range []bool{false, true} {
		h := newTargets(t)
		h.joints = make(chan stream.Joined, 1)
		c := build(t, client(t), kinds["vegas cgo"], simnet.New(t, simnet.Options{Streams: h}))
		j := join2(t, h, c)
		far := <-h.joints
		from, to, by, joint, s := j.target, j.program, j.front, j.joined, j.client
		if up {
			from, to, by, joint, s = to, from, j.relay, far, h.last.Load()
		}
		to.SetReadBuffer(4 << 10)
		by.SetWriteBuffer(4 << 10)
		if _, err := from.Write(long); err != nil {
			t.Fatal(err)
		}
		soon(t, func() bool { n, _ := s.Bytes(); return n == uint64(len(long)) })
		if up {
			j.client.Close()
		} else {
			from.Close()
		}
		soon(t, func() bool { return s.Hop().Streams() == 0 })
		if _, err := to.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		soon(t, func() bool { return stream.UpEnded(joint) })
		if b, err := io.ReadAll(to); err != nil || !bytes.Equal(b, long) {
			t.Errorf("to the target %v: %d of %d bytes, %v", up, len(b), len(long), err)
		}
		<-j.done
		<-h.done
	}
}

// soon waits until something is so.
func soon(t *testing.T, so func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !so(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("it does not happen")
		}
	}
}
