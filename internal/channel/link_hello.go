package channel

import (
	"context"
	"crypto/tls"
	"net"

	utls "github.com/refraction-networking/utls"

	"github.com/chivenet/chive/internal/cert"
	"github.com/chivenet/chive/internal/fault"
)

// tlsConn is a TLS connection of either library: a client's is uTLS's, all others are the standard library's.
type tlsConn interface {
	net.Conn
	NetConn() net.Conn // the connection below
}

// secured is a TLS connection whose handshake is done, at its initiator.
type secured struct {
	conn  tlsConn
	leaf  []byte               // the responder's certificate
	group string               // of the key exchange
	state *tls.ConnectionState // nil for a client, which proves nothing
}

// secure runs the TLS handshake of an initiator. TLS does not verify the certificate: the CERTS cell
// binds it to the relay's identity.
//
// The first packet of a client is seen by whoever watches the line, and must not tell which program sent it: it
// is C tor's. A relay is listed, and so are its peers: it offers what is best for both.
func (c *LinkConfig) secure(ctx context.Context, raw net.Conn) (secured, error) {
	name, err := cert.RandomHostname(c.rand(), 4, 25, ".com") // browsers send a host name, so C tor sends an invented one
	if err != nil {
		return secured{}, err
	}
	if c.proves() {
		conn := tls.Client(raw, c.relayTLS(name))
		if err := conn.HandshakeContext(ctx); err != nil {
			return secured{}, tlsError(err)
		}
		state := conn.ConnectionState()
		return secured{conn, state.PeerCertificates[0].Raw, state.CurveID.String(), &state}, nil
	}
	chooser := &shareChooser{Conn: raw}
	conn := utls.UClient(chooser, &utls.Config{
		Time:                        c.now,
		ServerName:                  name,
		InsecureSkipVerify:          true,
		SessionTicketsDisabled:      true,
		DynamicRecordSizingDisabled: true,
	}, utls.HelloCustom)
	if err := conn.ApplyPreset(ctorHello()); err != nil {
		return secured{}, fault.New(fault.Local, "make a ClientHello: %w", err)
	}
	chooser.keys = conn.HandshakeState.State13.KeyShareKeys
	if err := conn.HandshakeContext(ctx); err != nil {
		return secured{}, tlsError(err)
	}
	group := tls.CurveID(conn.HandshakeState.ServerHello.ServerShare.Group)
	conn.HandshakeState = utls.PubClientHandshakeState{} // some kilobytes of keys and messages
	return secured{conn: &clientTLS{conn, raw}, leaf: conn.ConnectionState().PeerCertificates[0].Raw, group: group.String()}, nil
}

// relayTLS returns the TLS configuration of a relay that dials another one.
func (c *LinkConfig) relayTLS(name string) *tls.Config {
	return &tls.Config{
		Time:                   c.now,
		ServerName:             name,
		InsecureSkipVerify:     true,
		MinVersion:             tls.VersionTLS13,
		CurvePreferences:       curves,
		SessionTicketsDisabled: true,
		// Write one record from the start; the scheduler bounds the latency.
		DynamicRecordSizingDisabled: true,
	}
}

// ctorHello describes the ClientHello of C tor 0.4.9.15 on OpenSSL 3.5, which is what Debian 13 and Tor
// Browser's users have. testdata has some of its own.
func ctorHello() *utls.ClientHelloSpec {
	return &utls.ClientHelloSpec{
		TLSVersMin: tls.VersionTLS13, // the list below offers TLS 1.2, too: who takes it is refused, for no relay needs it
		TLSVersMax: tls.VersionTLS13,
		CipherSuites: []uint16{
			tls.TLS_AES_128_GCM_SHA256, tls.TLS_CHACHA20_POLY1305_SHA256, tls.TLS_AES_256_GCM_SHA384,
			tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
			tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
			tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
			tls.TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA, tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA,
			tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA, tls.TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA,
			tls.TLS_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_RSA_WITH_AES_256_GCM_SHA384,
			tls.TLS_RSA_WITH_AES_128_CBC_SHA, tls.TLS_RSA_WITH_AES_256_CBC_SHA,
		},
		CompressionMethods: []uint8{0},
		Extensions: []utls.TLSExtension{
			&utls.RenegotiationInfoExtension{Renegotiation: utls.RenegotiateNever},
			&utls.SNIExtension{},
			&utls.SupportedPointsExtension{SupportedPoints: []uint8{0, 1, 2}},
			&utls.SupportedCurvesExtension{Curves: []utls.CurveID{utls.X25519MLKEM768, 0x11eb /* SecP256r1MLKEM768 */, utls.CurveP256, utls.X25519, 0x0015 /* secp224r1 */}},
			&utls.GenericExtension{Id: 0x0023}, // session_ticket
			&utls.GenericExtension{Id: 0x0016}, // encrypt_then_mac
			&utls.ExtendedMasterSecretExtension{},
			&utls.SignatureAlgorithmsExtension{SupportedSignatureAlgorithms: []utls.SignatureScheme{
				0x0905, 0x0906, 0x0904, 0x0403, 0x0503, 0x0603, 0x0807, 0x0808, 0x081a, 0x081b, 0x081c, 0x0809, 0x080a, 0x080b,
				0x0804, 0x0805, 0x0806, 0x0401, 0x0501, 0x0601, 0x0303, 0x0301, 0x0302, 0x0402, 0x0502, 0x0602}},
			&utls.SupportedVersionsExtension{Versions: []uint16{tls.VersionTLS13, tls.VersionTLS12}},
			&utls.PSKKeyExchangeModesExtension{Modes: []uint8{utls.PskModeDHE}},
			&utls.KeyShareExtension{KeyShares: []utls.KeyShare{{Group: utls.X25519MLKEM768}, {Group: utls.CurveP256}}},
			// compress_certificate: zlib and zstd. No relay compresses its certificate, for OpenSSL does so only if told
			// in advance; and one that says "16 MB" of it would have that from us.
			&utls.GenericExtension{Id: 0x001b, Data: []byte{4, 0, 1, 0, 3}},
		},
	}
}
