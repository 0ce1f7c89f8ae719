package sidecar

import (
	"context"
	"crypto/ecdsa"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/p2p/enode"
	"github.com/ethereum/go-ethereum/p2p/enr"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/ethereum/go-ethereum/rpc"
)

// An endpoint is where the node's JSON-RPC is: one of the two is set.
type endpoint struct {
	socket string         // a Unix socket
	addr   netip.AddrPort // of loopback, with HTTP
}

// parseEndpoint reads what the caller gave: a path, or a URL with an address of loopback. A name is refused, since
// it would have to be looked up.
func parseEndpoint(ipc, url string) (endpoint, error) {
	switch {
	case (ipc == "") == (url == ""):
		return endpoint{}, errors.New("sidecar: the node's IPC socket or the URL of its JSON-RPC is needed, and not both")
	case url == "":
		return endpoint{socket: ipc}, nil
	}
	text, ok := strings.CutPrefix(url, "http://")
	addr, err := netip.ParseAddrPort(strings.TrimSuffix(text, "/"))
	if !ok || err != nil || !addr.Addr().IsLoopback() || addr.Port() == 0 {
		return endpoint{}, errors.New("sidecar: the URL of the node's JSON-RPC must be http:// with an address of loopback and a port, such as http://127.0.0.1:8545")
	}
	return endpoint{addr: addr}, nil
}

func (e endpoint) String() string {
	if e.socket != "" {
		return "its IPC socket"
	}
	return "its JSON-RPC"
}

// nodeInfo is what the sidecar reads of admin_nodeInfo. Other clients than geth leave some of it out, and have
// more beside it.
type nodeInfo struct {
	Name       string
	Enode      string
	ENR        string
	ListenAddr string
	Ports      struct{ Discovery, Listener int }
}

// isGeth reports whether the node is go-ethereum, or a fork that still says so.
func (n *nodeInfo) isGeth() bool { return strings.HasPrefix(n.Name, "Geth/") }

// peerInfo is what the sidecar reads of an entry of admin_peers.
type peerInfo struct {
	ID      string
	Enode   string
	Network struct{ RemoteAddress string }
}

// node returns which node it is: some clients tell its ID, others its key, and others both in its URL only.
func (p *peerInfo) node() (enode.ID, bool) {
	if n, err := enode.ParseV4(p.Enode); err == nil {
		return n.ID(), true
	}
	text := strings.TrimPrefix(p.ID, "0x")
	if id, err := enode.ParseID(text); err == nil {
		return id, true
	}
	key, err := hex.DecodeString(text)
	if err != nil || len(key) != 64 {
		return enode.ID{}, false
	}
	pub, err := crypto.UnmarshalPubkey(append([]byte{4}, key...))
	if err != nil {
		return enode.ID{}, false
	}
	return enode.PubkeyToIDV4(pub), true
}

// admin is the node's interface: what admin_* of geth offers.
type admin interface {
	// Info describes the node.
	Info(ctx context.Context) (*nodeInfo, error)
	// Peers describes the node's connections.
	Peers(ctx context.Context) ([]*peerInfo, error)
	// AddPeer makes the node connect to another, and again when the connection ends.
	AddPeer(ctx context.Context, enode string) error
	// RemovePeer takes AddPeer back, and ends the connection.
	RemovePeer(ctx context.Context, enode string) error
	Close()
}

// methods is the admin interface over the node's JSON-RPC.
type methods struct {
	c    *rpc.Client
	http *http.Client // nil: it is by the socket
}

func dialAdmin(ctx context.Context, at endpoint) (admin, error) {
	if at.socket != "" {
		c, err := rpc.DialIPC(ctx, at.socket)
		if err != nil {
			return nil, err
		}
		return methods{c: c}, nil
	}
	// No proxy of the environment, and none of the node's redirects.
	client := &http.Client{Transport: &http.Transport{MaxIdleConns: 1, IdleConnTimeout: time.Minute},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	c, err := rpc.DialOptions(ctx, "http://"+at.addr.String(), rpc.WithHTTPClient(client))
	if err != nil {
		return nil, err
	}
	return methods{c, client}, nil
}

func (a methods) Info(ctx context.Context) (*nodeInfo, error) {
	var out *nodeInfo
	if err := a.c.CallContext(ctx, &out, "admin_nodeInfo"); err != nil {
		return nil, err
	}
	if out == nil {
		return nil, errors.New("admin_nodeInfo has no answer")
	}
	return out, nil
}

func (a methods) Peers(ctx context.Context) (out []*peerInfo, err error) {
	if err := a.c.CallContext(ctx, &out, "admin_peers"); err != nil {
		return nil, err
	}
	if slices.Contains(out, nil) {
		return nil, errors.New("admin_peers has an empty entry")
	}
	return out, nil
}

func (a methods) AddPeer(ctx context.Context, enode string) error {
	return a.call(ctx, "admin_addPeer", enode)
}

func (a methods) RemovePeer(ctx context.Context, enode string) error {
	return a.call(ctx, "admin_removePeer", enode)
}

func (a methods) call(ctx context.Context, method, enode string) error {
	var ok bool
	err := a.c.CallContext(ctx, &ok, method, enode)
	if err == nil && !ok {
		err = fmt.Errorf("%s: the node refused", method)
	}
	return err
}

func (a methods) Close() {
	a.c.Close()
	if a.http != nil {
		a.http.CloseIdleConnections()
	}
}

// face is what other nodes must know of the node.
type face struct {
	key *ecdsa.PublicKey
	id  enode.ID
	eth rlp.RawValue // the entry "eth" of its record: the chain and its forks; nil: it has none
}

// faceOf reads the node's identity.
func faceOf(info *nodeInfo) (face, error) {
	n, err := enode.Parse(enode.ValidSchemes, info.Enode)
	if err != nil || n.Pubkey() == nil {
		return face{}, fmt.Errorf("sidecar: admin_nodeInfo: no valid enode: %v", err)
	}
	f := face{key: n.Pubkey(), id: n.ID()}
	if r, err := enode.Parse(enode.ValidSchemes, info.ENR); err == nil {
		if err := r.Load(enr.WithEntry("eth", &f.eth)); err != nil {
			f.eth = nil
		}
	}
	return f, nil
}

// listenPort is the port at which the node takes connections; zero: none.
func listenPort(info *nodeInfo) int {
	if _, port, err := net.SplitHostPort(info.ListenAddr); err == nil {
		if n, err := strconv.ParseUint(port, 10, 16); err == nil && n > 0 {
			return int(n)
		}
	}
	if p := info.Ports.Listener; p > 0 && p < 1<<16 {
		return p
	}
	return 0
}
