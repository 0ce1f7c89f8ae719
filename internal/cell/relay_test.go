package cell

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/chivenet/chive/internal/fault"
)

// The commands that carry a stream ID in the RelayV1 layout (proposal 340, and
// docs/spec/half-close.md).
var streamCommands = []RelayCommand{RelayBegin, RelayBeginDir, RelayConnected, RelayData, RelayEnd, RelayResolve, RelayResolved, RelayXoff, RelayXon, RelayHalfClose}

func TestWantsStream(t *testing.T) {
	for c := range 256 {
		if cmd := RelayCommand(c); cmd.WantsStream() != slices.Contains(streamCommands, cmd) {
			t.Errorf("%v: %v", cmd, cmd.WantsStream())
		}
	}
}

func TestRelayLayout(t *testing.T) {
	var p [PayloadLen]byte
	for i := range p {
		p[i] = 0xaa
	}
	put(t, RelayV0, &p, RelayData, 0x1234, 0x1f2)
	if want := []byte{2, 0, 0, 0x12, 0x34, 0, 0, 0, 0, 0x01, 0xf2, 0xaa}; !bytes.Equal(p[:12], want) {
		t.Errorf("v0: % x", p[:12])
	}
	put(t, RelayV1, &p, RelayData, 0x1234, 0x1e8)
	if want := append(make([]byte, 16), 2, 0x01, 0xe8, 0x12, 0x34, 0xaa); !bytes.Equal(p[:22], want) {
		t.Errorf("v1: % x", p[:22])
	}
	p[19] = 0xbb
	put(t, RelayV1, &p, RelayExtended2, 0, 0x1ea)
	if want := append(make([]byte, 16), 15, 0x01, 0xea, 0xbb); !bytes.Equal(p[:20], want) {
		t.Errorf("v1 without stream: % x", p[:20])
	}
	if RelayV0.MaxData(true) != 498 || RelayV0.MaxData(false) != 498 || RelayV1.MaxData(true) != 488 || RelayV1.MaxData(false) != 490 {
		t.Error("greatest lengths")
	}
}

func TestRelayRoundTrip(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		f := RelayFormat(rnd.IntN(2))
		cmd := RelayCommand(rnd.IntN(45))
		if !cmd.Known() {
			continue
		}
		var stream uint16
		if cmd.WantsStream() {
			stream = uint16(1 + rnd.IntN(0xffff))
		}
		n := rnd.IntN(f.MaxData(cmd.WantsStream()) + 1)
		var p [PayloadLen]byte
		for i := range p {
			p[i] = byte(rnd.Uint32())
		}
		body := bytes.Clone(p[f.DataOffset(cmd):][:n])
		put(t, f, &p, cmd, stream, n)
		m, err := f.Parse(&p)
		if err != nil || m.Cmd != cmd || m.Stream != stream || !bytes.Equal(m.Data, body) || cap(m.Data) != n {
			t.Fatalf("%v %v: %+v %v", f, cmd, m, err)
		}
		if n > 0 && &m.Data[0] != &p[f.DataOffset(cmd)] {
			t.Fatal("the body was copied")
		}
	}
}

func put(t *testing.T, f RelayFormat, p *[PayloadLen]byte, cmd RelayCommand, stream uint16, n int) {
	t.Helper()
	if err := f.PutHeader(p, cmd, stream, n); err != nil {
		t.Fatal(err)
	}
}

// TestPutHeaderRefuses: what does not fit the layout is an error and leaves the
// payload as it was, because peers choose the layout, the stream ID and what is
// to be answered.
func TestPutHeaderRefuses(t *testing.T) {
	for _, c := range []struct {
		f      RelayFormat
		cmd    RelayCommand
		stream uint16
		n      int
		want   string
	}{
		{RelayV0, RelayData, 1, 499, "send DATA: 499 bytes, 498 fit"},
		{RelayV0, RelayData, 1, -1, "send DATA: -1 bytes, 498 fit"},
		{RelayV1, RelayData, 1, 489, "send DATA: 489 bytes, 488 fit"},
		{RelayV1, RelayData, 0, 1, "send DATA: stream ID 0, which relay message v1 does not allow"},
		{RelayV1, RelaySendme, 1, 0, "send SENDME: stream ID 1, which relay message v1 does not allow"},
	} {
		var p [PayloadLen]byte
		if err := c.f.PutHeader(&p, c.cmd, c.stream, c.n); !fault.Is(err, fault.Local) || err.Error() != c.want {
			t.Errorf("%q, not %q", err, c.want)
		}
		if p != [PayloadLen]byte{} {
			t.Errorf("%s: the payload changed", c.want)
		}
	}
}

func TestRelayRefuses(t *testing.T) {
	with := func(f RelayFormat, cmd, length, stream int) *[PayloadLen]byte {
		var p [PayloadLen]byte
		o := map[RelayFormat][3]int{RelayV0: {0, 9, 3}, RelayV1: {16, 17, 19}}[f]
		p[o[2]], p[o[2]+1] = byte(stream>>8), byte(stream)
		p[o[0]], p[o[1]], p[o[1]+1] = byte(cmd), byte(length>>8), byte(length)
		return &p
	}
	for _, c := range []struct {
		f                   RelayFormat
		cmd, length, stream int
		want                string
	}{
		{RelayV0, 2, 499, 1, "relay message v0: DATA: length 499 is over 498"},
		{RelayV0, 5, 65535, 0, "relay message v0: SENDME: length 65535 is over 498"},
		{RelayV0, 2, 1, 0, "relay message v0: DATA without a stream ID"},
		{RelayV1, 2, 489, 1, "relay message v1: DATA: length 489 is over 488"},
		{RelayV1, 15, 491, 0, "relay message v1: EXTENDED2: length 491 is over 490"},
		{RelayV1, 3, 1, 0, "relay message v1: END without a stream ID"},
		{RelayV1, 99, 0, 0, "relay message v1: unknown relay command 99"},
		{RelayV1, 0, 0, 0, "relay message v1: unknown relay command 0"},
	} {
		_, err := c.f.Parse(with(c.f, c.cmd, c.length, c.stream))
		if err == nil || err.Error() != c.want || !fault.Is(err, fault.Protocol) {
			t.Errorf("%q, not %q", err, c.want)
		}
	}
	if m, err := RelayV0.Parse(with(RelayV0, 99, 3, 0)); err != nil || m.Cmd != 99 {
		t.Errorf("an unknown command in v0 is the caller's: %v", err)
	}
	if m, err := RelayV0.Parse(with(RelayV0, 5, 3, 8)); err != nil || m.Stream != 8 {
		t.Errorf("a stream's SENDME: %v", err)
	}
}

func TestReasons(t *testing.T) {
	got := EndExitPolicy.String() + " " + EndReason(0).String() + " " + EndReason(200).String() + " " + DestroyNone.String() + " " + DestroyNoSuchService.String() + " " + DestroyReason(13).String()
	if got != "EXITPOLICY end reason 0 end reason 200 NONE NOSUCHSERVICE destroy reason 13" {
		t.Error(got)
	}
}
