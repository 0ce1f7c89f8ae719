package channel

import (
	"net"

	utls "github.com/refraction-networking/utls"
	"golang.org/x/crypto/cryptobyte"
)

// clientTLS is a client's TLS connection. Its NetConn is what was given to TLS, without
// the shareChooser between.
type clientTLS struct {
	*utls.UConn
	below net.Conn
}

func (c *clientTLS) NetConn() net.Conn { return c.below }

// shareChooser reads a responder's first record along with TLS. C tor offers key shares for two groups,
// X25519MLKEM768 and P-256. uTLS keeps a key for each, but takes P-256's for both unless the other one is X25519's
// own; so what stands there is exchanged when the responder has chosen.
type shareChooser struct {
	net.Conn
	keys  *utls.KeySharePrivateKeys // nil: the responder has chosen
	begun []byte                    // of its first record
}

func (s *shareChooser) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if s.keys == nil {
		return n, err
	}
	s.begun = append(s.begun, p[:n]...)
	if len(s.begun) < 5 {
		return n, err
	}
	if end := 5 + int(s.begun[3])<<8 + int(s.begun[4]); len(s.begun) >= end {
		if chosenGroup(s.begun[5:end]) == utls.X25519MLKEM768 {
			s.keys.Ecdhe = s.keys.MlkemEcdhe
		}
		s.keys, s.begun = nil, nil
	}
	return n, err
}

// chosenGroup returns the group in the key_share of a ServerHello, or 0. What is wrong with the message, TLS
// itself says.
func chosenGroup(message []byte) utls.CurveID {
	s := cryptobyte.String(message)
	var hello, sessionID, extensions, body cryptobyte.String
	var kind uint8
	var id, group uint16
	if !s.ReadUint8(&kind) || kind != 2 || !s.ReadUint24LengthPrefixed(&hello) || !hello.Skip(2+32) ||
		!hello.ReadUint8LengthPrefixed(&sessionID) || !hello.Skip(2+1) || !hello.ReadUint16LengthPrefixed(&extensions) {
		return 0
	}
	for extensions.ReadUint16(&id) && extensions.ReadUint16LengthPrefixed(&body) {
		if id == 51 && body.ReadUint16(&group) {
			return utls.CurveID(group)
		}
	}
	return 0
}
