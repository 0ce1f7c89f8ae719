package experiment

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/chivenet/chive/authority"
	"github.com/chivenet/chive/chivelab/internal/benchcirc"
	"github.com/chivenet/chive/chivelab/internal/links"
	"github.com/chivenet/chive/chivelab/internal/linkstack"
	"github.com/chivenet/chive/chivelab/internal/linktun"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/panics"
)

// Times of a network of C tor.
const (
	torStart = 3 * time.Minute // until the directory has the path
	torAgain = 500 * time.Millisecond
	months   = 12 // that the authorities' certificates are valid
)

// nodesName is the directory of the nodes' files in an experiment's, while it runs.
const nodesName = "nodes"

// torNetwork is a network with nodes of C tor's: each node in namespaces of its own, behind its link. Who measures is in this
// process.
type torNetwork struct {
	net     *links.Net
	dir     string
	nodes   []*torNode
	running []*torHost
	client  *linkstack.Host

	ctx  context.Context // until a node has ended, or close
	fail context.CancelCauseFunc
}

// torHost is a node that runs.
type torHost struct {
	*linktun.Host
	ended chan struct{}
}

// emulateTor starts the network of a file that has nodes of C tor's.
func emulateTor(ctx context.Context, f *File, session int, dir string, p Programs) (at *Site, err error) {
	if dir, err = filepath.Abs(filepath.Join(dir, nodesName)); err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	if err := os.RemoveAll(dir); err != nil { // a session that was killed has left it
		return nil, fault.Wrap(fault.Local, err)
	}
	nw := &torNetwork{net: links.NewNet(f.Seed<<8 + uint64(session)), dir: dir, nodes: f.torNodes()}
	nw.ctx, nw.fail = context.WithCancelCause(ctx)
	defer func() {
		if err != nil {
			err = errors.Join(err, nw.close())
		}
	}()
	ctx, cancel := context.WithTimeout(nw.ctx, torStart)
	defer cancel()
	var path []string
	for _, n := range nw.nodes {
		if n.role == RoleClient {
			nw.client, err = linkstack.Attach(nw.net, n.addr, n.access)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, name := range f.Path {
		for _, n := range nw.nodes {
			if n.label == name {
				path = append(path, n.name)
				n.last = len(path) == len(f.Path)
			}
		}
	}
	local := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	at = &Site{Network: nw.makeNetwork(), Dial: nw.client.Dial, emulated: nw.net, running: nw.ctx, close: nw.close,
		Echo: netip.AddrPortFrom(local, echoPort), Web: netip.AddrPortFrom(local, webPort)}
	if err := nw.start(at, p); err != nil {
		return nil, err
	}
	for {
		if at.Path, err = benchcirc.Named(ctx, at.Network, path, at.Dial); err == nil {
			return at, nil
		}
		select {
		case <-ctx.Done():
			if cause := context.Cause(nw.ctx); cause != nil {
				err = cause
			}
			return nil, fault.New(fault.KindOf(err), "no directory with the path: %w", err)
		case <-time.After(torAgain):
		}
	}
}

// makeNetwork describes the network to who measures. The authorities come when they have keys.
func (nw *torNetwork) makeNetwork() *netdir.Network {
	return &netdir.Network{Name: "experiment", Testing: netdir.Testing{AllowPrivateAddresses: true, VotingInterval: torRounds}}
}

// start makes the authorities' keys, and starts all nodes. Relays send their descriptors when they start, and so come after
// the authorities.
func (nw *torNetwork) start(at *Site, p Programs) error {
	for _, n := range nw.nodes {
		if n.role != RoleAuthority {
			continue
		}
		or, dp := netip.AddrPortFrom(n.addr, orPort), netip.AddrPortFrom(n.addr, dirPort)
		k, err := authority.MakeKeys(filepath.Join(nw.dir, n.name, "keys"), dp.String(), months, nil)
		if err != nil {
			return fault.New(fault.KindOf(err), "the keys of %s: %w", n.label, err)
		}
		a := netdir.Authority{Nickname: n.name, ORPorts: []netip.AddrPort{or}, DirPort: dp}
		if a.V3Ident, err = ident.ParseRSAID(k.V3Ident); err == nil {
			a.RSA, err = ident.ParseRSAID(k.RSA)
		}
		if err == nil {
			a.Ed, err = ident.ParseEd25519ID(k.Ed25519)
		}
		if err != nil {
			return err
		}
		at.Network.Authorities = append(at.Network.Authorities, a)
	}
	soon := time.Now().Add(torFirst)
	for _, authorities := range []bool{true, false} {
		for _, n := range nw.nodes {
			if n.role == RoleClient || (n.role == RoleAuthority) != authorities {
				continue
			}
			if err := nw.startNode(n, n.torrc(nw.dir, at.Network.Authorities, soon), at, p); err != nil {
				return fault.New(fault.KindOf(err), "%s: %w", n.label, err)
			}
		}
	}
	return nil
}

// startNode starts a node that ends with the network. That it ends earlier is an error of all.
func (nw *torNetwork) startNode(n *torNode, torrc []byte, at *Site, p Programs) error {
	file := filepath.Join(nw.dir, n.name, "torrc")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fault.Wrap(fault.Local, err)
	}
	if err := os.WriteFile(file, torrc, 0o600); err != nil {
		return fault.Wrap(fault.Local, err)
	}
	output := filepath.Join(nw.dir, n.name, "output")
	out, err := os.Create(output)
	if err != nil {
		return fault.Wrap(fault.Local, err)
	}
	defer out.Close()
	command := []string{p.Tor}
	if n.program == ProgramChive { // by the same configuration
		command = append(append([]string{}, p.Self...), "tor")
	}
	command = append(command, "--defaults-torrc", "/nonexistent", "-f", file, "--hush")
	if n.last { // the targets are on the exit's host, since it reaches them without a link
		command = append(append(append([]string{}, p.Self...), "experiment", "beside", "--echo", at.Echo.String(), "--web", at.Web.String(), "--"), command...)
	}
	host, err := linktun.Attach(nw.net, n.addr, n.access, linktun.Command{Args: command, Output: out, Congestion: links.Congestion})
	if err != nil {
		return err
	}
	h := &torHost{host, make(chan struct{})}
	nw.running = append(nw.running, h)
	go panics.Contain(nil, nw.fail, func() {
		defer close(h.ended)
		code, err := h.Run(nw.ctx)
		if nw.ctx.Err() == nil {
			said, bad := os.ReadFile(output)
			nw.fail(fault.New(fault.Local, "%s has ended (%d, %v): %s", n.label, code, errors.Join(err, bad), strings.TrimSpace(string(said[max(0, len(said)-1000):]))))
		}
	})()
	return nil
}

// close ends all nodes, and removes their files.
func (nw *torNetwork) close() error {
	nw.fail(fault.New(fault.Closed, "the network is closed"))
	for _, h := range nw.running {
		h.Close()
		<-h.ended
	}
	if nw.client != nil {
		nw.client.Close()
	}
	nw.net.Close()
	if err := os.RemoveAll(nw.dir); err != nil {
		return fault.New(fault.Local, "the nodes' files: %w", err)
	}
	return nil
}

// torNode is a node of such a network, or who measures.
type torNode struct {
	name, label string // in the network, and in the file
	role        string
	program     string
	addr        netip.Addr
	access      links.Access
	last        bool // of the path
}

// torNodes gives each node of a file a name and an address.
func (f *File) torNodes() (out []*torNode) {
	add := func(label, role, program string, a links.Access) {
		i := len(out) + 1
		out = append(out, &torNode{name: fmt.Sprintf("%s%d", role, i), label: label, role: role, program: program, access: a,
			addr: netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 1})})
	}
	count := map[string]int{}
	for _, n := range f.Nodes {
		add(n.Name, n.Role, f.runs(&n), f.Access(n.Place))
		count[n.Role]++
	}
	// What a network needs beside. These nodes are in no path.
	if count[RoleAuthority] == 0 {
		add("an authority", RoleAuthority, ProgramTor, links.Access{})
	}
	for i := count[RoleRelay] + count[RoleExit]; i < 3; i++ {
		add("a relay", RoleRelay, ProgramTor, links.Access{})
	}
	return out
}
