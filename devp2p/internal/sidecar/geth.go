package sidecar

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/p2p/enode"
	"github.com/ethereum/go-ethereum/p2p/enr"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/ethereum/go-ethereum/rpc"
)

// admin is the node's interface: what admin_* of geth offers.
type admin interface {
	// Info describes the node.
	Info(ctx context.Context) (*p2p.NodeInfo, error)
	// Peers describes the node's connections.
	Peers(ctx context.Context) ([]*p2p.PeerInfo, error)
	// AddPeer makes the node connect to another, and again when the connection ends.
	AddPeer(ctx context.Context, enode string) error
	// RemovePeer takes AddPeer back, and ends the connection.
	RemovePeer(ctx context.Context, enode string) error
	Close()
}

// ipc is the admin interface over geth's IPC socket.
type ipc struct{ c *rpc.Client }

func dialIPC(ctx context.Context, path string) (admin, error) {
	c, err := rpc.DialIPC(ctx, path)
	if err != nil {
		return nil, err
	}
	return ipc{c}, nil
}

func (a ipc) Info(ctx context.Context) (*p2p.NodeInfo, error) {
	var out *p2p.NodeInfo
	if err := a.c.CallContext(ctx, &out, "admin_nodeInfo"); err != nil {
		return nil, err
	}
	if out == nil {
		return nil, errors.New("admin_nodeInfo has no answer")
	}
	return out, nil
}

func (a ipc) Peers(ctx context.Context) (out []*p2p.PeerInfo, err error) {
	err = a.c.CallContext(ctx, &out, "admin_peers")
	return out, err
}

func (a ipc) AddPeer(ctx context.Context, enode string) error {
	return a.call(ctx, "admin_addPeer", enode)
}

func (a ipc) RemovePeer(ctx context.Context, enode string) error {
	return a.call(ctx, "admin_removePeer", enode)
}

func (a ipc) call(ctx context.Context, method, enode string) error {
	var ok bool
	err := a.c.CallContext(ctx, &ok, method, enode)
	if err == nil && !ok {
		err = fmt.Errorf("%s: the node refused", method)
	}
	return err
}

func (a ipc) Close() { a.c.Close() }

// face is what other nodes must know of the node.
type face struct {
	key *ecdsa.PublicKey
	id  enode.ID
	eth rlp.RawValue // the entry "eth" of its record: the chain and its forks; nil: it has none
}

// faceOf reads the node's identity.
func faceOf(info *p2p.NodeInfo) (face, error) {
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

// listenPort is the port at which the node takes connections.
func listenPort(info *p2p.NodeInfo) (int, error) {
	if _, port, err := net.SplitHostPort(info.ListenAddr); err == nil {
		if n, err := strconv.ParseUint(port, 10, 16); err == nil && n > 0 {
			return int(n), nil
		}
	}
	if p := info.Ports.Listener; p > 0 && p < 1<<16 {
		return p, nil
	}
	return 0, errors.New("sidecar: the node listens on no port: it must not be started with --port 0 or --maxpeers 0")
}
