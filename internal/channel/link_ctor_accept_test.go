package channel

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/linkspec"
)

// orPort listens as a Chive relay; accept makes the link of the next connection.
func orPort(t *testing.T) (addr netip.AddrPort, accept func() *Link) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().(*net.TCPAddr).AddrPort(), func() *Link {
		t.Helper()
		l.(*net.TCPListener).SetDeadline(time.Now().Add(60 * time.Second))
		raw, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
		defer cancel()
		link, err := Accept(ctx, raw, &LinkConfig{Identity: keys(t), Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { link.Conn.Close() })
		return link
	}
}

// TestAcceptCtorClient: a stock client takes a Chive relay as its bridge, checks
// its certificates, and opens a circuit.
func TestAcceptCtorClient(t *testing.T) {
	addr, accept := orPort(t)
	startTor(t, t.TempDir(), "SocksPort auto", "UseBridges 1", "Bridge "+addr.String()+" "+keys(t).ID.RSA.String())
	l := accept()
	if l.PeerAuthenticated || !l.Peer.RSA.IsZero() || l.Version != 5 || len(l.PeerAddrs) != 0 || l.ClockSkewKnown || l.MyAddr != addr.Addr() {
		t.Errorf("%+v", l)
	}
	t.Logf("TLS group %v", l.Conn.(*tls.Conn).ConnectionState().CurveID)
	c := nextCell(t, l)
	if cell.Cmd(c) != cell.CmdCreateFast && cell.Cmd(c) != cell.CmdCreate2 || cell.CircID(c)&0x80000000 == 0 {
		t.Errorf("%v on circuit %x", cell.Cmd(c), cell.CircID(c))
	}
}

// TestAcceptCtorRelay: a stock relay extends a circuit to a Chive relay, for
// which it dials it and authenticates; the circuit's second hop answers.
func TestAcceptCtorRelay(t *testing.T) {
	addr, accept := orPort(t)
	stock := startCtor(t)
	client, err := stock.connect(t, stock.id, &LinkConfig{})
	if err != nil {
		t.Fatal(err)
	}
	const id = 0x80000001
	hop := createFast(t, client, id)

	onion, err := handshake.GenerateNtorKeyPair(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	target := linkspec.Target{RelayID: keys(t).ID, Addrs: []netip.AddrPort{addr}, Ntor: onion.Public()}
	state, skin, err := handshake.Ntor.Start(rand.Reader, &target, nil)
	if err != nil {
		t.Fatal(err)
	}
	extend := cell.Extend2{Specs: linkspec.Append(nil, target.Specs()), Type: cell.HandshakeNtor, Data: skin}
	body := extend.Append(nil)
	c := cell.AppendFixed(nil, id, cell.CmdRelayEarly, nil)
	copy(cell.Payload(c)[hop.Format.DataOffset(cell.RelayExtend2):], body)
	if err := hop.Format.PutHeader(cell.Payload(c), cell.RelayExtend2, 0, len(body)); err != nil {
		t.Fatal(err)
	}
	hop.Forward.Originate(cell.CmdRelayEarly, cell.Payload(c))
	if _, err := client.Conn.Write(c); err != nil {
		t.Fatal(err)
	}

	l := accept()
	if !l.PeerAuthenticated || l.Peer != stock.id || l.Version != 5 || l.MyAddr != addr.Addr() || !l.ClockSkewKnown {
		t.Errorf("%+v", l)
	}
	got := nextCell(t, l)
	create, err := cell.ParseCreate2(got[cell.HeaderLen:])
	if err != nil || cell.Cmd(got) != cell.CmdCreate2 || create.Type != cell.HandshakeNtor {
		t.Fatalf("%v: %+v %v", cell.Cmd(got), create, err)
	}
	reply, _, err := handshake.Ntor.Serve(rand.Reader, &handshake.Relay{ID: keys(t).ID, Onion: []*handshake.NtorKeyPair{onion}}, create.Data, nil)
	if err != nil {
		t.Fatal(err)
	}
	created := cell.Created2{Data: reply}
	send(t, l, cell.CircID(got), cell.CmdCreated2, created.Append(nil))

	answer := expect(t, client, id, cell.CmdRelay)
	if !hop.Backward.Open(cell.CmdRelay, cell.Payload(answer)) {
		t.Fatal("the first hop's cell was not recognised")
	}
	m, err := hop.Format.Parse(cell.Payload(answer))
	if err != nil || m.Cmd != cell.RelayExtended2 {
		t.Fatalf("%v %v", m.Cmd, err)
	}
	extended, err := cell.ParseExtended2(m.Data)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := state.Finish(extended.Data); err != nil {
		t.Fatal(err)
	}
}
