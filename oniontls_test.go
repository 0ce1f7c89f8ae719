package chive

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"testing"
	"time"
)

// TestSelfSigned: a certificate is for the address and names below it, and does not tell when the
// service was started.
func TestSelfSigned(t *testing.T) {
	l := &OnionListener{key: newOnionKey(t).k}
	c, err := l.SelfSigned()
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(c.Leaf)
	for name, ok := range map[string]bool{l.Address(): true, "www." + l.Address(): true, newOnionKey(t).Address(): false, "example.com": false} {
		if _, err := c.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots}); (err == nil) != ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	if f := c.Leaf.NotBefore; f.Truncate(24*time.Hour) != f || time.Since(f) < 24*time.Hour || time.Until(c.Leaf.NotAfter) < 364*24*time.Hour {
		t.Errorf("good from %v to %v", f, c.Leaf.NotAfter)
	}
	again, err := l.SelfSigned()
	if err != nil || again.Leaf.SerialNumber.Cmp(c.Leaf.SerialNumber) == 0 {
		t.Error("the serial number comes again:", err)
	}
}

// TestTLSConfig: certificates of other hosts, and what is none, are refused before a client sees them.
func TestTLSConfig(t *testing.T) {
	l, other := &OnionListener{key: newOnionKey(t).k}, &OnionListener{key: newOnionKey(t).k}
	mine, err := l.SelfSigned()
	if err != nil {
		t.Fatal(err)
	}
	parsed := mine
	parsed.Leaf = nil
	if cfg, err := l.TLSConfig(mine, parsed); err != nil || len(cfg.Certificates) != 2 {
		t.Error(err)
	}
	if cfg, err := l.TLSConfig(); err != nil || len(cfg.Certificates) != 1 || cfg.Certificates[0].Leaf.VerifyHostname(l.Address()) != nil {
		t.Error(err)
	}
	noKey := mine
	noKey.PrivateKey = nil
	for name, c := range map[string]tls.Certificate{"none": {}, "no key": noKey, "garbage": {Certificate: [][]byte{{1}}, PrivateKey: mine.PrivateKey}} {
		if _, err := l.TLSConfig(mine, c); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := other.TLSConfig(mine); !errors.Is(err, ErrConfig) {
		t.Error("another service's:", err)
	}
}
