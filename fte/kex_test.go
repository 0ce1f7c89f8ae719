package fte

import (
	"bytes"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/chivenet/chive/fte/internal/elligator"
	"github.com/chivenet/chive/internal/fault"
)

// exchanged runs an exchange of keys up to the server's answer; ok: the server took the hello.
func exchanged(t *testing.T, key *ServerKey, cert *Cert, client, server []byte, flags byte) (c *clientKex, answer []byte, s secrets, ok bool) {
	t.Helper()
	c, hello, err := newClientKex(rand.Reader, cert, client, flags, 0, time.Unix(1_700_000_000, 0))
	if err != nil {
		t.Fatal(err)
	}
	k, n, err := newServerKex([]*ServerKey{key}, server, hello[:clientHelloHead])
	if err != nil {
		return nil, nil, secrets{}, false
	}
	if err := k.read(hello[clientHelloHead : clientHelloHead+n]); err != nil {
		t.Fatal(err)
	}
	if answer, s, err = k.answer(rand.Reader, 0); err != nil {
		t.Fatal(err)
	}
	return c, answer, s, true
}

// TestKexBinds: a hello counts only with the certificate's secret and the same prologue, and
// ML-KEM's secret is in the keys. Each side alone would not notice if both left one out.
func TestKexBinds(t *testing.T) {
	key, err := NewServerKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := key.Cert()
	if _, _, _, ok := exchanged(t, key, cert, []byte("a"), []byte("a"), 0); !ok {
		t.Error("a good hello is refused")
	}
	if _, _, _, ok := exchanged(t, key, cert, []byte("a"), []byte("b"), 0); ok {
		t.Error("another prologue")
	}
	other := *cert
	other.secret[0] ^= 1
	if _, _, _, ok := exchanged(t, key, &other, []byte("a"), []byte("a"), 0); ok {
		t.Error("the right key, with a wrong secret")
	}
	c, answer, server, ok := exchanged(t, key, cert, []byte("a"), []byte("a"), flagHybrid)
	if !ok {
		t.Fatal("a hybrid hello is refused")
	}
	if _, err := c.head(answer[:serverHelloHead]); err != nil {
		t.Fatal(err)
	}
	classical, tr, b := *c, *c.t, *c.b
	classical.t, classical.b, classical.dk = &tr, &b, nil
	without, err := classical.finish(answer[serverHelloHead:])
	if err != nil {
		t.Fatal(err)
	}
	with, err := c.finish(answer[serverHelloHead:])
	if err != nil || with != server {
		t.Errorf("the sides have other keys: %v", err)
	}
	if with.toServer == without.toServer || with.toClient == without.toClient {
		t.Error("ML-KEM's secret is not in the keys")
	}
}

// TestBoxNonces: no two messages of a key have one nonce.
func TestBoxNonces(t *testing.T) {
	b := newBox([32]byte{1})
	if bytes.Equal(b.nonce(), b.nonce()) {
		t.Error("a nonce is used again")
	}
}

// TestHelloHead: a hello whose head is authentic, and says what no client says, is a stranger's: flags
// that are unknown, and bodies that are too short or too long.
func TestHelloHead(t *testing.T) {
	key, err := NewServerKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := key.Cert()
	for name, c := range map[string]struct {
		flags, reserved byte
		body            int
		ok              bool
	}{
		"plain":             {0, 0, kexTag, true},
		"every known flag":  {knownFlags, 0, maxHelloBody, true},
		"an unknown flag":   {knownFlags + 1, 0, kexTag, false},
		"the highest flag":  {0x80, 0, kexTag, false},
		"a reserved byte":   {0, 1, kexTag, false},
		"no room for a tag": {0, 0, kexTag - 1, false},
		"no body":           {0, 0, 0, false},
		"too long":          {0, 0, maxHelloBody + 1, false},
		"as long as it can": {0, 0, 0xffff, false},
	} {
		priv, rep, err := elligator.Generate(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		own, err := ecdh.X25519().NewPrivateKey(priv[:])
		if err != nil {
			t.Fatal(err)
		}
		es, err := own.ECDH(cert.pub)
		if err != nil {
			t.Fatal(err)
		}
		tr := newTranscript(cert.pub, &cert.secret, []byte("p"))
		tr.mixHash(rep[:])
		b := newBox(tr.mixKey(es))
		fixed := [clientFixed]byte{0: c.flags, 1: c.reserved}
		binary.BigEndian.PutUint16(fixed[2:], uint16(c.body))
		k, n, err := newServerKex([]*ServerKey{key}, []byte("p"), tr.seal(b, rep[:], fixed[:]))
		if c.ok && (err != nil || n != c.body || k.flags != c.flags) || !c.ok && !errors.Is(err, errStranger) {
			t.Errorf("%s: a body of %d bytes, %v", name, n, err)
		}
	}
}

// TestFirstRecordIsEmpty: the record with which a client shows that its hello is no replay holds
// nothing: data in it would be read before the server knows.
func TestFirstRecordIsEmpty(t *testing.T) {
	req := mustFormat(t, "hex-request")
	p := &chiveProto{Protocol: Protocol{Rand: rand.Reader}, request: req, response: req}
	sec := secrets{toServer: [32]byte{1}, toClient: [32]byte{2}}
	use := func(c *Conn, send, receive [32]byte) carrier {
		w, err := p.writer(req)
		if err != nil {
			t.Fatal(err)
		}
		r, err := p.reader(req)
		if err != nil {
			t.Fatal(err)
		}
		c.hsDone = true
		return p.use(c, sec, w, r, send, receive)
	}
	for name, data := range map[string][]byte{"empty": nil, "a byte": {1}, "many": noise(400, 1)} {
		var out capture
		c := newConn(&out, nil)
		seal := use(c, sec.toServer, sec.toClient)
		if len(data) == 0 {
			wire, err := seal.cover(getFrame(nil, wireFrame).B)
			if err != nil {
				t.Fatal(err)
			}
			out.b.Write(wire)
		} else if _, err := c.Write(data); err != nil {
			t.Fatal(err)
		}
		server := newConn(recorded(out.b.Bytes()), nil)
		use(server, sec.toClient, sec.toServer)
		if err := (&chiveServer{chiveProto: p}).confirmed(server); (err == nil) != (data == nil) || err != nil && !fault.Is(err, fault.Protocol) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
