package cell

import (
	"reflect"
	"testing"
)

// fuzz asserts that what parses encodes to something that parses to the same.
// Seeds are in testdata/fuzz.
func fuzz[T any](f *testing.F, parse func([]byte) (T, error), app func(T, []byte) []byte) {
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parse(b)
		if err != nil {
			return
		}
		enc := app(m, nil)
		again, err := parse(enc)
		if err != nil || !reflect.DeepEqual(m, again) {
			t.Fatalf("%+v became % x and that %+v: %v", m, enc, again, err)
		}
	})
}

// ptr turns a method on a pointer into a function of a value.
func ptr[T any](app func(*T, []byte) []byte) func(T, []byte) []byte {
	return func(m T, b []byte) []byte { return app(&m, b) }
}

func FuzzVersions(f *testing.F)      { fuzz(f, ParseVersions, Versions.Append) }
func FuzzCerts(f *testing.F)         { fuzz(f, ParseCerts, Certs.Append) }
func FuzzAuthChallenge(f *testing.F) { fuzz(f, ParseAuthChallenge, ptr((*AuthChallenge).Append)) }
func FuzzAuthenticate(f *testing.F)  { fuzz(f, ParseAuthenticate, ptr((*Authenticate).Append)) }
func FuzzNetinfo(f *testing.F)       { fuzz(f, ParseNetinfo, ptr((*Netinfo).Append)) }
func FuzzCreateFast(f *testing.F)    { fuzz(f, ParseCreateFast, ptr((*CreateFast).Append)) }
func FuzzCreatedFast(f *testing.F)   { fuzz(f, ParseCreatedFast, ptr((*CreatedFast).Append)) }
func FuzzCreate2(f *testing.F)       { fuzz(f, ParseCreate2, ptr((*Create2).Append)) }
func FuzzCreated2(f *testing.F)      { fuzz(f, ParseCreated2, ptr((*Created2).Append)) }
func FuzzBegin(f *testing.F)         { fuzz(f, ParseBegin, ptr((*Begin).Append)) }
func FuzzConnected(f *testing.F)     { fuzz(f, ParseConnected, ptr((*Connected).Append)) }
func FuzzEnd(f *testing.F)           { fuzz(f, parseEnd, ptr((*End).Append)) }
func FuzzResolve(f *testing.F)       { fuzz(f, ParseResolve, ptr((*Resolve).Append)) }
func FuzzResolved(f *testing.F)      { fuzz(f, ParseResolved, appendResolved) }
func FuzzExtend2(f *testing.F)       { fuzz(f, ParseExtend2, ptr((*Extend2).Append)) }
func FuzzExtended2(f *testing.F)     { fuzz(f, ParseExtended2, ptr((*Extended2).Append)) }
func FuzzTruncated(f *testing.F)     { fuzz(f, ParseTruncated, ptr((*Truncated).Append)) }
func FuzzSendme(f *testing.F)        { fuzz(f, ParseSendme, ptr((*Sendme).Append)) }
func FuzzXoff(f *testing.F)          { fuzz(f, ParseXoff, ptr((*Xoff).Append)) }
func FuzzXon(f *testing.F)           { fuzz(f, ParseXon, ptr((*Xon).Append)) }
func FuzzConfluxLink(f *testing.F)   { fuzz(f, ParseConfluxLink, ptr((*ConfluxLink).Append)) }
func FuzzConfluxSwitch(f *testing.F) { fuzz(f, ParseConfluxSwitch, ptr((*ConfluxSwitch).Append)) }
func FuzzExts(f *testing.F) {
	fuzz(f, ParseExts, func(m []Ext, b []byte) []byte { return AppendExts(b, m) })
}
func FuzzCCResponse(f *testing.F) {
	fuzz(f, ParseCCResponse, func(m uint8, b []byte) []byte { return append(b, CCResponse(m).Body...) })
}
func FuzzSubprotoRequest(f *testing.F) {
	fuzz(f, ParseSubprotoRequest, func(m []Subproto, b []byte) []byte { return append(b, SubprotoRequest(m...).Body...) })
}
func FuzzPaddingNegotiate(f *testing.F) {
	fuzz(f, ParsePaddingNegotiate, ptr((*PaddingNegotiate).Append))
}
func FuzzCircPaddingNegotiate(f *testing.F) {
	fuzz(f, ParseCircPaddingNegotiate, ptr((*CircPaddingNegotiate).Append))
}
func FuzzCircPaddingNegotiated(f *testing.F) {
	fuzz(f, ParseCircPaddingNegotiated, ptr((*CircPaddingNegotiated).Append))
}

func FuzzEstablishIntro(f *testing.F) {
	fuzz(f, func(b []byte) (EstablishIntro, error) {
		m, err := ParseEstablishIntro(b)
		if err == nil && (len(m.Signed) != len(m.MACed)+32 || len(m.Signed) > len(b)) {
			panic("what is signed")
		}
		return m, err
	}, ptr((*EstablishIntro).Append))
}
func FuzzIntroEstablished(f *testing.F) {
	fuzz(f, ParseIntroEstablished, ptr((*IntroEstablished).Append))
}
func FuzzIntroduce(f *testing.F)    { fuzz(f, ParseIntroduce, ptr((*Introduce).Append)) }
func FuzzIntroduceAck(f *testing.F) { fuzz(f, ParseIntroduceAck, ptr((*IntroduceAck).Append)) }
func FuzzEstablishRendezvous(f *testing.F) {
	fuzz(f, ParseEstablishRendezvous, ptr((*EstablishRendezvous).Append))
}
func FuzzRendezvous1(f *testing.F) { fuzz(f, ParseRendezvous1, ptr((*Rendezvous1).Append)) }
func FuzzIntroducePlaintext(f *testing.F) {
	fuzz(f, ParseIntroducePlaintext, ptr((*IntroducePlaintext).Append))
}
func FuzzIntroDoS(f *testing.F) {
	fuzz(f, ParseIntroDoS, func(m IntroDoS, b []byte) []byte { return append(b, m.Ext().Body...) })
}
func FuzzPoW(f *testing.F) {
	fuzz(f, ParsePoW, func(m PoW, b []byte) []byte { return append(b, m.Ext().Body...) })
}

// FuzzRelay parses a payload in both layouts; the message must fit and encode
// to the same header.
func FuzzRelay(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, format := range []RelayFormat{RelayV0, RelayV1} {
			var p [PayloadLen]byte
			copy(p[:], b)
			m, err := format.Parse(&p)
			if err != nil {
				continue
			}
			if len(m.Data) > format.MaxData(m.Cmd.WantsStream()) || format == RelayV1 && m.Cmd.WantsStream() != (m.Stream != 0) {
				t.Fatalf("%+v", m)
			}
			q := p
			// A message that a peer chose may be one that we cannot send, such as a
			// SENDME with a stream ID in RelayV1: an error, and no panic.
			for _, other := range []RelayFormat{RelayV0, RelayV1} {
				_ = other.PutHeader(&q, m.Cmd, m.Stream, len(m.Data))
			}
			q = p
			if err := format.PutHeader(&q, m.Cmd, m.Stream, len(m.Data)); err != nil {
				t.Fatal(err)
			}
			again, err := format.Parse(&q)
			if err != nil || !reflect.DeepEqual(m, again) {
				t.Fatalf("%v: %+v became %+v: %v", format, m, again, err)
			}
		}
	})
}

// FuzzSize walks a stream of cells as a reader does.
func FuzzSize(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		for {
			n := Size(b)
			if n == 0 || n > len(b) {
				return
			}
			if n < VarHeaderLen || n > MaxVarLen || len(Body(b[:n])) > n {
				t.Fatalf("a cell of %d bytes", n)
			}
			b = b[n:]
		}
	})
}
