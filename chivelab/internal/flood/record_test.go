package flood

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"strings"
	"testing"
)

// TestSealer has crypto/tls read what the sealer writes, under keys that
// change.
func TestSealer(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	server := tls.Server(far, &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, SessionTicketsDisabled: true})
	got := make(chan string, 1)
	go func() {
		b := make([]byte, 9)
		if _, err := io.ReadFull(server, b); err != nil {
			b = []byte(err.Error())
		}
		got <- string(b)
	}()
	var keys strings.Builder
	client := tls.Client(near, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13, KeyLogWriter: &keys})
	if err := client.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, err := newSealer(client.ConnectionState().CipherSuite, keys.String())
	if err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, near) // the server's own updates
	for _, word := range []string{"one", "two", "six"} {
		out := s.seal(nil, recordApplication, []byte(word))
		for range 3 {
			if out, err = s.update(out); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := near.Write(out); err != nil {
			t.Fatal(err)
		}
	}
	if s := <-got; s != "onetwosix" {
		t.Errorf("the server read %q", s)
	}
}

func TestSealerRefusesOtherSuites(t *testing.T) {
	if _, err := newSealer(tls.TLS_CHACHA20_POLY1305_SHA256, ""); err == nil {
		t.Error("ChaCha20 is taken for AES")
	}
	if _, err := newSealer(tls.TLS_AES_256_GCM_SHA384, "CLIENT_RANDOM 00 00\n"); err == nil {
		t.Error("no secret is found")
	}
}
