package appearance

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
)

// linkProbes are questions within the link's protocol: what cells a stranger gets, and what becomes of those that it should not send.
func linkProbes() []probe {
	const id = 1 << 31 // of a circuit that the side begins that has dialled
	fixed := func(cmd cell.Command, id uint32, body ...byte) []byte { return cell.AppendFixed(nil, id, cmd, body) }
	create2 := func(kind uint16, length int) []byte {
		m := cell.Create2{Type: cell.HandshakeType(kind), Data: make([]byte, length)}
		return fixed(cell.CmdCreate2, id, m.Append(nil)...)
	}
	fast := fixed(cell.CmdCreateFast, id, make([]byte, cell.CreateFastLen)...)
	return []probe{
		{"certs", "the certificates and the challenge of its link", certsForm, ""},
		{"netinfo", "its NETINFO", netinfoForm, ""},
		{"certs-life", "how long those certificates are good", certsLife, ""},
		{"open", "no cell after the handshake", linked(true), ""},
		{"no-netinfo", "no NETINFO", linked(false), ""},
		{"create-early", "CREATE_FAST in place of NETINFO", linked(false, fast), ""},
		{"create-fast", "CREATE_FAST", linked(true, fast), ""},
		{"create-again", "CREATE_FAST twice, with the same circuit ID", linked(true, fast, fast), ""},
		{"create-0", "CREATE_FAST with circuit ID 0", linked(true, fixed(cell.CmdCreateFast, 0)), ""},
		{"create-other", "CREATE_FAST with the circuit ID of the other side", linked(true, fixed(cell.CmdCreateFast, 7)), ""},
		{"create-tap", "CREATE", linked(true, fixed(cell.CmdCreate, id)), ""},
		{"create2-tap", "CREATE2 with TAP", linked(true, create2(0, 186)), ""},
		{"create2-ntor", "CREATE2 with an onionskin of ntor that is none", linked(true, create2(2, 84)), ""},
		{"create2-short", "CREATE2 with an onionskin of ntor that is too short", linked(true, create2(2, 10)), ""},
		{"create2-ntor3", "CREATE2 with an onionskin of ntor-v3 that is none", linked(true, create2(3, 200)), ""},
		{"create2-unknown", "CREATE2 with an unknown handshake", linked(true, create2(77, 84)), ""},
		{"create2-long", "CREATE2 with a length beyond the cell", linked(true, fixed(cell.CmdCreate2, id, 0, 2, 0xff, 0xff)), ""},
		{"created", "CREATED2", linked(true, fixed(cell.CmdCreated2, id)), ""},
		{"relay", "RELAY on no circuit", linked(true, fixed(cell.CmdRelay, id)), ""},
		{"relay-garbage", "RELAY with zeros on a circuit", linked(true, fast, fixed(cell.CmdRelay, id)), ""},
		{"early-garbage", "RELAY_EARLY with zeros on a circuit, nine times", linked(true, append([][]byte{fast}, nine(fixed(cell.CmdRelayEarly, id))...)...), ""},
		{"destroy", "DESTROY of no circuit", linked(true, fixed(cell.CmdDestroy, id, 9)), ""},
		{"destroy-circuit", "DESTROY of a circuit", linked(true, fast, fixed(cell.CmdDestroy, id, 9)), ""},
		{"padding", "PADDING and VPADDING", linked(true, fixed(cell.CmdPadding, 0), cell.AppendVar(nil, 0, cell.CmdVPadding, make([]byte, 9))), ""},
		{"padding-negotiate", "PADDING_NEGOTIATE", linked(true, fixed(cell.CmdPaddingNegotiate, 0, 0, 2, 0, 0, 0, 0)), ""},
		{"unknown", "a cell of an unknown kind", linked(true, fixed(99, 0)), ""},
		{"unknown-long", "a cell of an unknown kind of variable length", linked(true, cell.AppendVar(nil, 0, 222, make([]byte, 30))), ""},
		{"versions-again", "VERSIONS after the handshake", linked(true, cell.AppendVar(nil, 0, cell.CmdVersions, []byte{0, 5})), ""},
		{"netinfo-again", "NETINFO after the handshake", linked(true, netinfoCell()), ""},
		{"netinfo-short", "NETINFO with zeros", linked(false, fixed(cell.CmdNetinfo, 0, make([]byte, cell.PayloadLen)...)), ""},
		{"certs-none", "CERTS without a certificate", linked(false, cell.AppendVar(nil, 0, cell.CmdCerts, []byte{0})), ""},
		{"authenticate", "AUTHENTICATE without CERTS", linked(false, cell.AppendVar(nil, 0, cell.CmdAuthenticate, []byte{0, 3, 0, 0})), ""},
		{"challenge", "AUTH_CHALLENGE of the side that has dialled", linked(false, cell.AppendVar(nil, 0, cell.CmdAuthChallenge, make([]byte, 36))), ""},
		{"authorize", "AUTHORIZE", linked(false, cell.AppendVar(nil, 0, cell.CmdAuthorize, []byte{1, 2, 3})), ""},
	}
}

func nine(b []byte) (out [][]byte) {
	for range 9 {
		out = append(out, b)
	}
	return out
}

// netinfoCell is that of a client.
func netinfoCell() []byte {
	m := cell.Netinfo{}
	return cell.AppendFixed(nil, 0, cell.CmdNetinfo, m.Append(nil))
}

// dialLink does the handshake of TLS and sends VERSIONS. It returns the cells of the other side until its NETINFO.
func dialLink(ctx context.Context, addr string) (conn *tls.Conn, cells [][]byte, err error) {
	if conn, err = dialTLS(ctx, addr); err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			conn.NetConn().Close()
			conn = nil
		}
	}()
	if _, err = conn.Write(cell.Versions{3, 4, 5}.AppendCell(nil)); err != nil {
		return conn, nil, fault.Wrap(fault.Network, err)
	}
	head := make([]byte, 5)
	if _, err = io.ReadFull(conn, head); err != nil {
		return conn, nil, fault.Wrap(fault.Network, err)
	}
	if _, err = io.ReadFull(conn, make([]byte, binary.BigEndian.Uint16(head[3:]))); err != nil {
		return conn, nil, fault.Wrap(fault.Network, err)
	}
	for len(cells) == 0 || cell.Cmd(cells[len(cells)-1]) != cell.CmdNetinfo {
		c, err := readCell(conn)
		if err != nil {
			return conn, nil, fault.Wrap(fault.Network, err)
		}
		cells = append(cells, c)
	}
	return conn, cells, nil
}

// readCell reads one cell of link protocol 4 or 5.
func readCell(r io.Reader) ([]byte, error) {
	c := make([]byte, cell.VarHeaderLen)
	if _, err := io.ReadFull(r, c); err != nil {
		return nil, err
	}
	c = append(c, make([]byte, cell.Size(c)-len(c))...)
	_, err := io.ReadFull(r, c[cell.VarHeaderLen:])
	return c, err
}

// linked returns a probe that sends cells after the other side's NETINFO, and its own before, if it shall; after CREATE_FAST it waits for an
// answer before the others. It tells the cells that come then, and
// how it ends.
func linked(netinfo bool, cells ...[]byte) func(context.Context, string) (string, error) {
	return func(ctx context.Context, addr string) (string, error) {
		conn, _, err := dialLink(ctx, addr)
		if err != nil {
			return "", err
		}
		defer conn.NetConn().Close()
		var send []byte
		if netinfo {
			send = netinfoCell()
		}
		var out []string
		for i, c := range cells {
			send = append(send, c...)
			if i > 0 || len(cells) == 1 || cell.Cmd(c) != cell.CmdCreateFast {
				continue
			}
			// What waits on a circuit when it is destroyed may get lost in both programs.
			if _, err := conn.Write(send); err != nil {
				return "", fault.Wrap(fault.Network, err)
			}
			answer, err := readCell(conn)
			if err != nil {
				return ended(err), nil
			}
			out, send = append(out, cell.Cmd(answer).String()), nil
		}
		if _, err := conn.Write(send); err != nil {
			return "", fault.Wrap(fault.Network, err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(patience(ctx)))
		for {
			c, err := readCell(conn)
			if err != nil {
				return strings.Join(append(out, ended(err)), ", "), nil
			}
			what := cell.Cmd(c).String()
			switch cell.Cmd(c) {
			case cell.CmdDestroy:
				what = fmt.Sprintf("%s %x of %x", what, c[cell.HeaderLen], cell.CircID(c))
			case cell.CmdPaddingNegotiate:
				what = fmt.Sprintf("%s %x", what, c[cell.HeaderLen:cell.HeaderLen+6])
			}
			out = append(out, what)
		}
	}
}

// responder returns the certificates, the body of AUTH_CHALLENGE and NETINFO of a link's other side.
func responder(ctx context.Context, addr string) (certs cell.Certs, challenge []byte, netinfo cell.Netinfo, err error) {
	conn, cells, err := dialLink(ctx, addr)
	if err != nil {
		return nil, nil, netinfo, err
	}
	defer conn.NetConn().Close()
	for _, c := range cells {
		switch cell.Cmd(c) {
		case cell.CmdCerts:
			certs, err = cell.ParseCerts(c[cell.VarHeaderLen:])
		case cell.CmdAuthChallenge:
			challenge = c[cell.VarHeaderLen:]
		case cell.CmdNetinfo:
			netinfo, err = cell.ParseNetinfo(c[cell.HeaderLen:])
		}
		if err != nil {
			return nil, nil, netinfo, err
		}
	}
	return certs, challenge, netinfo, nil
}

// Certificates in CERTS that are of X.509 (tor-spec, "CERTS cells"); the others but crossCert are of Ed25519.
const (
	leafCert  = 1 // that of TLS
	rsaCert   = 2
	crossCert = 7
)

// certsForm tells the types of certificates with their lengths, which those of X.509 have by chance, and what the challenge asks for.
func certsForm(ctx context.Context, addr string) (string, error) {
	certs, challenge, _, err := responder(ctx, addr)
	if err != nil {
		return "", err
	}
	var out []string
	for _, c := range certs {
		if c.Type == rsaCert {
			x, err := x509.ParseCertificate(c.Body)
			if err != nil {
				return "", fault.Wrap(fault.Protocol, err)
			}
			out = append(out, fmt.Sprintf("%d: version %d, %v, serial of 8 bytes at most: %v, %d extensions", c.Type, x.Version, x.SignatureAlgorithm, x.SerialNumber.BitLen() <= 64, len(x.Extensions)))
			continue
		}
		if c.Type == leafCert {
			out = append(out, fmt.Sprintf("%d", c.Type))
			continue
		}
		out = append(out, fmt.Sprintf("%d: %d bytes", c.Type, len(c.Body)))
	}
	if len(challenge) < 32 {
		return "", fault.New(fault.Protocol, "a challenge of %d bytes", len(challenge))
	}
	return fmt.Sprintf("%s; challenge with methods %x", strings.Join(out, "; "), challenge[32:]), nil
}

// certsLife tells when the certificates end, in days from now that are not quite over, and how long that of X.509 is good.
func certsLife(ctx context.Context, addr string) (string, error) {
	certs, _, _, err := responder(ctx, addr)
	if err != nil {
		return "", err
	}
	const day = 24 * time.Hour
	var out []string
	for _, c := range certs {
		var hours uint32 // since 1970
		switch {
		case c.Type == leafCert:
			continue
		case c.Type == rsaCert:
			x, err := x509.ParseCertificate(c.Body)
			if err != nil {
				return "", fault.Wrap(fault.Protocol, err)
			}
			out = append(out, fmt.Sprintf("%d: %d days, from midnight: %v", c.Type, x.NotAfter.Sub(x.NotBefore)/day, x.NotBefore.Truncate(day).Equal(x.NotBefore)))
			continue
		case c.Type == crossCert && len(c.Body) > 36:
			hours = binary.BigEndian.Uint32(c.Body[32:])
		case len(c.Body) > 6:
			hours = binary.BigEndian.Uint32(c.Body[2:])
		}
		out = append(out, fmt.Sprintf("%d: %d days", c.Type, (time.Until(time.Unix(int64(hours)*3600, 0))+day-1)/day))
	}
	return strings.Join(out, "; "), nil
}

// netinfoForm tells whether NETINFO has the time, and which address of this side. It names none of C tor's own addresses until that knows one.
func netinfoForm(ctx context.Context, addr string) (string, error) {
	_, _, n, err := responder(ctx, addr)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("time 0: %v, this side: %v", n.Time == 0, n.Other), nil
}
