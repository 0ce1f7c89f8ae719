package netdoc

import (
	"crypto/rsa"
	"crypto/sha1"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"io"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/cert"
	"github.com/chivenet/chive/internal/ident"
)

// DescKeys are the keys with which a relay signs its documents.
type DescKeys struct {
	Identity    *rsa.PrivateKey
	Ed          ident.Ed25519ID   // master identity key
	Signing     *cert.ExpandedKey // medium-term signing key
	SigningCert []byte            // its certificate, signed by Ed; it includes Ed
	NtorSecret  [32]byte
	Onion       *rsa.PrivateKey // TAP key; nil: none
	FamilyCerts [][]byte        // certificates of the identity, signed by family keys
}

// ntorCrossLife is the lifetime of an ntor key's cross-certificate; the key
// itself is replaced after 28 days.
const ntorCrossLife = 35 * 24 * time.Hour

// Sign encodes the descriptor, signs it, and parses the result, which sets
// digests and text. It takes identities, onion keys and family keys from keys.
func (d *RouterDesc) Sign(rand io.Reader, keys *DescKeys, now time.Time) (*RouterDesc, error) {
	ntorKey, sign, err := cert.FromX25519(keys.NtorSecret)
	if err != nil {
		return nil, err
	}
	rsaID := RSADigest(&keys.Identity.PublicKey)
	b := appendLine(nil, "router", d.Nickname, d.Addr.String(), itoa(d.ORPort), "0", itoa(d.DirPort))
	b = AppendObject(appendLine(b, "identity-ed25519"), edCertObject, keys.SigningCert)
	b = appendLine(b, "master-key-ed25519", keys.Ed.String())
	for _, ap := range d.ORAddrs {
		b = appendLine(b, "or-address", ap.String())
	}
	b = appendText(b, "platform", d.Platform)
	b = appendText(b, "proto", d.Proto)
	b = append(appendTime(append(b, "published "...), d.Published), '\n')
	b = appendLine(b, "fingerprint", spaced(rsaID))
	b = appendLine(b, "uptime", itoa(int64(d.Uptime)))
	b = appendLine(b, "bandwidth", itoa(int64(d.BandwidthRate)), itoa(int64(d.BandwidthBurst)), itoa(int64(d.BandwidthObserved)))
	if d.HasExtraInfo {
		b = appendLine(b, "extra-info-digest", strings.ToUpper(hex.EncodeToString(d.ExtraInfo[:])), base64.RawStdEncoding.EncodeToString(d.ExtraInfoSHA256[:]))
	}
	b = appendFlag(b, "caches-extra-info", d.CachesExtraInfo)
	if keys.Onion != nil {
		b = AppendObject(appendLine(b, "onion-key"), rsaKeyObject, x509.MarshalPKCS1PublicKey(&keys.Onion.PublicKey))
	}
	b = AppendObject(appendLine(b, "signing-key"), rsaKeyObject, x509.MarshalPKCS1PublicKey(&keys.Identity.PublicKey))
	if keys.Onion != nil {
		cross, err := signRSA(rand, keys.Onion, append(rsaID[:], keys.Ed[:]...))
		if err != nil {
			return nil, err
		}
		b = AppendObject(appendLine(b, "onion-key-crosscert"), "CROSSCERT", cross)
	}
	cross := cert.Ed25519{Type: cert.NtorCCIdentity, Expires: now.Add(ntorCrossLife), KeyType: cert.KeyEd25519, Key: keys.Ed}
	b = AppendObject(appendLine(b, "ntor-onion-key-crosscert", itoa(int(sign))), edCertObject, cross.Encode(ntorKey.Sign))
	if len(d.Family) > 0 {
		b = appendLine(b, "family", d.Family...)
	}
	for _, c := range keys.FamilyCerts {
		b = AppendObject(appendLine(b, "family-cert"), "FAMILY CERT", c)
	}
	if d.Hibernating {
		b = appendLine(b, "hibernating", "1")
	}
	b = appendFlag(b, "hidden-service-dir", d.HSDir)
	b = appendText(b, "contact", d.Contact)
	ntor, err := ntorPublic(keys.NtorSecret)
	if err != nil {
		return nil, err
	}
	b = appendLine(b, "ntor-onion-key", ntor.String())
	for _, r := range d.Policy {
		b = appendLine(b, r.String())
	}
	if d.Policy6 != nil && !d.Policy6.RejectsAll() {
		b = appendLine(b, "ipv6-policy", d.Policy6.String())
	}
	b = appendFlag(b, "tunnelled-dir-server", d.TunnelledDir)
	if b, err = keys.sign(rand, b, routerSigPrefix); err != nil {
		return nil, err
	}
	return ParseRouterDesc(b, now)
}

// sign adds both signatures.
func (k *DescKeys) sign(rand io.Reader, b []byte, prefix string) ([]byte, error) {
	b = append(b, "router-sig-ed25519 "...)
	digest := edDigest(prefix, b)
	b = base64.RawStdEncoding.AppendEncode(b, k.Signing.Sign(digest[:]))
	b = append(b, "\nrouter-signature\n"...)
	sum := sha1.Sum(b)
	sig, err := signRSA(rand, k.Identity, sum[:])
	if err != nil {
		return nil, err
	}
	return AppendObject(b, "SIGNATURE", sig), nil
}

func appendFlag(b []byte, keyword string, on bool) []byte {
	if !on {
		return b
	}
	return appendLine(b, keyword)
}

// appendText writes a line of free text, without the text after a newline, which
// would begin another item.
func appendText(b []byte, keyword, text string) []byte {
	text, _, _ = strings.Cut(text, "\n")
	if text == "" {
		return b
	}
	return appendLine(b, keyword, text)
}

// spaced returns a fingerprint in groups of four digits.
func spaced(id ident.RSAID) string {
	s := id.String()
	var groups []string
	for i := 0; i < len(s); i += 4 {
		groups = append(groups, s[i:i+4])
	}
	return strings.Join(groups, " ")
}
