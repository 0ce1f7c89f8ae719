package cell

import (
	"bytes"
	"testing"
)

func TestFixedCell(t *testing.T) {
	c := AppendFixed([]byte("x"), 0x80000001, CmdCreate2, []byte("body"))[1:]
	if len(c) != Len || CircID(c) != 0x80000001 || Cmd(c) != CmdCreate2 || Size(c) != Len {
		t.Fatalf("%d %x %v %d", len(c), CircID(c), Cmd(c), Size(c))
	}
	p := Payload(c)
	if string(p[:4]) != "body" || !bytes.Equal(p[4:], make([]byte, PayloadLen-4)) || &p[0] != &c[HeaderLen] || len(Body(c)) != PayloadLen {
		t.Fatal("payload")
	}
	PutHeader(c, 7, CmdDestroy)
	if SetCircID(c, 9); CircID(c) != 9 || Cmd(c) != CmdDestroy || c[5] != 'b' {
		t.Fatal("header")
	}
}

func TestVariableCell(t *testing.T) {
	c := AppendVar(nil, 0, CmdCerts, []byte{1, 2, 3})
	if !bytes.Equal(c, []byte{0, 0, 0, 0, 129, 0, 3, 1, 2, 3}) || Size(c) != len(c) || !bytes.Equal(Body(c), []byte{1, 2, 3}) {
		t.Fatalf("% x", c)
	}
	for n := range VarHeaderLen {
		if Size(c[:n]) != 0 {
			t.Fatalf("a size out of %d bytes", n)
		}
	}
	if big := AppendVar(nil, 0, CmdVPadding, make([]byte, 0xffff)); Size(big) != MaxVarLen || len(big) != MaxVarLen {
		t.Fatal("greatest cell")
	}
}

func TestCommandKinds(t *testing.T) {
	for c := range 256 {
		if got, want := Command(c).IsVariable(), c == 7 || c >= 128; got != want {
			t.Errorf("%v: variable %v", Command(c), got)
		}
	}
	if s := CmdAuthChallenge.String() + " " + Command(99).String(); s != "AUTH_CHALLENGE command 99" {
		t.Error(s)
	}
}

func mustPanic(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s: no panic", what)
		}
	}()
	f()
}

func TestCallerBugsPanic(t *testing.T) {
	for what, f := range map[string]func(){
		"fixed body too long":    func() { AppendFixed(nil, 1, CmdRelay, make([]byte, PayloadLen+1)) },
		"variable as fixed":      func() { AppendFixed(nil, 1, CmdCerts, nil) },
		"variable body too long": func() { AppendVar(nil, 0, CmdCerts, make([]byte, 0x10000)) },
		"fixed as variable":      func() { AppendVar(nil, 0, CmdNetinfo, nil) },
		"extension too long":     func() { AppendExts(nil, []Ext{{1, make([]byte, 256)}}) },
		"unsorted capabilities":  func() { SubprotoRequest(Subproto{2, 6}, Subproto{2, 5}) },
		"certificate too long":   func() { Certs{{1, make([]byte, 0x10000)}}.Append(nil) },
	} {
		mustPanic(t, what, f)
	}
}

func TestNoAllocations(t *testing.T) {
	c := make([]byte, Len)
	data := make([]byte, 488)
	var sum int
	for name, f := range map[string]func(){
		"fixed encode": func() { c = AppendFixed(c[:0], 5, CmdCreate2, data) },
		"fixed decode": func() { sum += int(CircID(c)) + int(Cmd(c)) + int(Payload(c)[0]) + Size(c) },
		"relay v0": func() {
			p := Payload(c)
			copy(p[RelayV0.DataOffset(RelayData):], data)
			if err := RelayV0.PutHeader(p, RelayData, 3, len(data)); err != nil {
				panic(err)
			}
			m, err := RelayV0.Parse(p)
			if err != nil {
				panic(err)
			}
			sum += len(m.Data)
		},
		"relay v1": func() {
			p := Payload(c)
			copy(p[RelayV1.DataOffset(RelayData):], data)
			if err := RelayV1.PutHeader(p, RelayData, 3, len(data)); err != nil {
				panic(err)
			}
			m, err := RelayV1.Parse(p)
			if err != nil {
				panic(err)
			}
			sum += len(m.Data)
		},
		"sendme": func() {
			m := Sendme{1, data[:20]}
			got, err := ParseSendme(m.Append(c[:0]))
			if err != nil {
				panic(err)
			}
			sum += len(got.Tag)
		},
		"xon": func() {
			m := Xon{12}
			got, err := ParseXon(m.Append(c[:0]))
			if err != nil {
				panic(err)
			}
			sum += int(got.KBps)
		},
		"conflux switch": func() {
			m := ConfluxSwitch{12}
			got, err := ParseConfluxSwitch(m.Append(c[:0]))
			if err != nil {
				panic(err)
			}
			sum += int(got.Seq)
		},
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
