package ctor

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

const (
	// holdInterval is the longest initial voting interval that tor accepts, in
	// seconds.
	holdInterval = 1800
	// validFor is about how long a consensus is valid by default.
	validFor = 3 * time.Hour
	// maxNodes bounds a network: more would need more addresses and too much
	// time.
	maxNodes = 200
)

// plan gives every node its name, address, ports and directory. It starts
// nothing.
func plan(opts Options) (*Network, error) {
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
		*p = max(*p, 0)
	}
	def(&opts.Authorities, 3)
	if opts.DirAuthorities != nil {
		opts.Authorities = 0
	}
	def(&opts.Relays, 3)
	def(&opts.Exits, 2)
	if n := opts.Authorities + opts.Relays + opts.Exits + opts.Clients; n > maxNodes {
		return nil, fault.New(fault.Config, "%d nodes are more than %d", n, maxNodes)
	}
	if opts.LogLevel == "" {
		opts.LogLevel = "notice"
	}
	if opts.VotingInterval == 0 {
		opts.VotingInterval = 5 * time.Minute
	}
	if opts.VotingInterval < 10*time.Second || opts.VotingInterval%time.Second != 0 {
		return nil, fault.New(fault.Config, "voting interval %v: whole seconds, 10 at least", opts.VotingInterval)
	}
	if opts.ValidIntervals == 0 {
		opts.ValidIntervals = max(2, int(validFor/opts.VotingInterval))
	}
	if opts.ExitPolicy == nil {
		opts.ExitPolicy = []string{"accept *:*", "accept6 *:*"}
	}
	if opts.IPv6 && !HasIPv6() {
		return nil, fault.New(fault.Local, "this machine has no IPv6 loopback")
	}
	if opts.IPv6 && opts.DistinctSubnets {
		return nil, fault.New(fault.Config, "every relay's IPv6 address is ::1: no two would be in different subnets")
	}
	nw := &Network{opts: opts, owner: os.Getpid(), log: opts.Log, Dir: opts.Dir}
	if nw.log == nil {
		nw.log = slog.New(slog.DiscardHandler)
	}
	var err error
	if nw.tor, nw.gencert, err = Find(opts.TorPath); err != nil {
		return nil, err
	}
	nw.relayTor = nw.tor
	if nw.Dir == "" {
		if nw.Dir, err = os.MkdirTemp("", "chive-ctor-"); err != nil {
			return nil, fault.Wrap(fault.Local, err)
		}
		nw.tempDir = true
	}
	if nw.Dir, err = filepath.Abs(nw.Dir); err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	nw.resolvConf = filepath.Join(nw.Dir, "resolv.conf")
	nw.bandwidths = filepath.Join(nw.Dir, "bandwidths")
	nw.holdOffset = holdOffset(time.Now(), opts.VotingInterval)
	nw.run = newRunner()
	for role, count := range []int{Authority: opts.Authorities, Relay: opts.Relays, Exit: opts.Exits, Client: opts.Clients} {
		for i := range count {
			name := usualName(Role(role), i)
			nw.Nodes = append(nw.Nodes, &Node{Name: cmp.Or(opts.Names[name], name), Role: Role(role)})
		}
	}
	if err := nw.checkNames(); err != nil {
		nw.Close()
		return nil, err
	}
	if err := nw.findTors(); err != nil {
		nw.Close()
		return nil, err
	}
	for i, n := range nw.Nodes {
		if err := nw.place(n, i); err != nil {
			nw.Close()
			return nil, err
		}
	}
	return nw, nil
}

// usualName is the nickname of a role's i-th node.
func usualName(r Role, i int) string { return fmt.Sprintf("%s%d", r, i) }

// checkNames reports what Options.Names gives to no node, or to two.
func (nw *Network) checkNames() error {
	usual, taken, count := map[string]bool{}, map[string]bool{}, map[Role]int{}
	for _, n := range nw.Nodes {
		usual[usualName(n.Role, count[n.Role])] = true
		count[n.Role]++
		if taken[n.Name] {
			return fault.New(fault.Config, "two nodes are called %s", n.Name)
		}
		taken[n.Name] = true
	}
	for name := range nw.opts.Names {
		if !usual[name] {
			return fault.New(fault.Config, "there is no node %q to call by another name", name)
		}
	}
	return nil
}

// findTors looks up the programs of Options.Tors.
func (nw *Network) findTors() error {
	nw.tors = map[string]string{}
	for key, path := range nw.opts.Tors {
		if !slices.ContainsFunc(nw.Nodes, func(n *Node) bool { return key == n.Name || key == n.Role.String() }) && key != Client.String() {
			return fault.New(fault.Config, "a tor for %q, which is neither a role nor a node", key)
		}
		tor, _, err := Find(path)
		if err != nil {
			return err
		}
		nw.tors[key] = tor
	}
	return nil
}

// torOf returns the program that a node runs.
func (nw *Network) torOf(n *Node) string {
	for _, key := range []string{n.Name, n.Role.String()} {
		if tor, ok := nw.tors[key]; ok {
			return tor
		}
	}
	if n.Role == Client {
		return nw.tor
	}
	return nw.relayTor
}

// holdOffset chooses the voting offset that keeps the first scheduled vote
// farther away: the interval's start is either as it falls or one voting
// interval later.
func holdOffset(now time.Time, voting time.Duration) int {
	most := min(int(voting/time.Second), holdInterval)
	until := func(offset int) int {
		return (holdInterval + offset - int(now.Unix()%holdInterval) - 1) % holdInterval
	}
	if until(most) > until(0) {
		return most
	}
	return 0
}

func (nw *Network) place(n *Node, index int) error {
	addr := loopback4
	if nw.opts.DistinctSubnets && n.Role != Client {
		addr = netip.AddrFrom4([4]byte{127, byte(1 + index), 0, 1})
	}
	n.setDir(filepath.Join(nw.Dir, n.Name))
	n.run, n.clients = nw.run, nw.Clients
	var err error
	port := func(addrs ...netip.Addr) (p uint16) {
		if err == nil {
			p, err = nw.leases.Take(addrs...)
		}
		return p
	}
	n.ControlAddr = netip.AddrPortFrom(loopback4, port(loopback4))
	switch n.Role {
	case Client:
		n.SOCKS = netip.AddrPortFrom(loopback4, port(loopback4))
	default:
		both := []netip.Addr{addr}
		if nw.opts.IPv6 {
			both = append(both, loopback6)
		}
		n.OR = netip.AddrPortFrom(addr, port(both...))
		if nw.opts.IPv6 {
			n.OR6 = netip.AddrPortFrom(loopback6, n.OR.Port())
		}
		if n.Role == Authority {
			n.DirPort = netip.AddrPortFrom(addr, port(addr))
		}
	}
	return err
}

func (n *Node) setDir(dir string) {
	n.Dir = dir
	n.LogPath = filepath.Join(dir, "log")
	n.torrc = filepath.Join(dir, "torrc")
}

// prepare writes everything that the processes read: keys, bandwidths,
// configurations.
func (nw *Network) prepare(ctx context.Context) error {
	if nw.opts.WithoutCGO {
		if err := nw.copyWithoutCGO(); err != nil {
			return err
		}
	}
	err := each(nw.Nodes, func(n *Node) error {
		if err := os.MkdirAll(n.Dir, 0o700); err != nil {
			return fault.Wrap(fault.Local, err)
		}
		n.tor = nw.torOf(n)
		if n.Role == Client {
			return nil
		}
		var err error
		if n.ID, err = writeRelayKeys(n.Dir); err != nil || n.Role != Authority {
			return err
		}
		n.V3Ident, err = writeAuthorityKeys(ctx, nw.gencert, n.Dir, n.DirPort.String())
		return err
	})
	if err != nil {
		return err
	}
	server := nw.opts.Nameserver
	if !server.IsValid() {
		server = netip.AddrPortFrom(loopback4, 1) // no server there
	}
	files := map[string]string{
		nw.resolvConf: "nameserver " + server.String() + "\n",
		nw.bandwidths: nw.bandwidthFile(time.Now()),
	}
	for _, n := range nw.Nodes {
		files[n.torrc] = nw.torrc(n)
	}
	for path, text := range files {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return fault.Wrap(fault.Local, err)
		}
	}
	return nil
}

// bandwidthFile returns a bandwidth scanner's file for the authorities
// (bandwidth-file-spec 1.0), so that the first consensus already has weights.
func (nw *Network) bandwidthFile(now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d\n", now.Unix())
	for _, n := range nw.Routers() {
		nw.bandwidthLine(&b, n.ID.RSA, n.Name)
	}
	for _, g := range nw.guests {
		nw.bandwidthLine(&b, g.RSA, g.Nickname)
	}
	return b.String()
}

func (nw *Network) bandwidthLine(b *strings.Builder, id ident.RSAID, name string) {
	bw, ok := nw.opts.Bandwidth[name]
	if !ok {
		bw = 10000
	}
	fmt.Fprintf(b, "node_id=$%s bw=%d nick=%s\n", id, bw, name)
}

// copyWithoutCGO copies the tor binary and changes some bytes of the copy: the subprotocol list
// in its descriptors says Relay=2-4 instead of Relay=2-6, and so do the lists for which an
// authority votes. (0.4.9.15 and later require Relay=2-6 of relays.) If tor is the
// script that .ci/newest-tor writes, the script runs the copy.
func (nw *Network) copyWithoutCGO() error {
	bin, err := os.ReadFile(nw.tor)
	if err != nil {
		return fault.Wrap(fault.Local, err)
	}
	script := bytes.HasPrefix(bin, []byte("#!"))
	if script {
		if bin, err = programOf(nw.tor, bin); err != nil {
			return err
		}
	}
	const full, less = "Relay=2-6\x00", "Relay=2-4\x00"
	if !bytes.Contains(bin, []byte("Padding=2 "+full)) {
		return fault.New(fault.Local, "%s does not have the subprotocol list: cannot make a relay without CGO of it", nw.tor)
	}
	copied := filepath.Join(nw.Dir, "tor-without-cgo")
	if err := os.WriteFile(copied, bytes.ReplaceAll(bin, []byte(full), []byte(less)), 0o700); err != nil {
		return fault.Wrap(fault.Local, err)
	}
	if nw.relayTor = copied; script {
		nw.relayTor += ".sh"
		text := fmt.Sprintf("#!/bin/sh\nCHIVE_TOR_PROGRAM=%q exec %q \"$@\"\n", copied, nw.tor)
		return fault.Wrap(fault.Local, os.WriteFile(nw.relayTor, []byte(text), 0o700))
	}
	return nil
}

// programOf returns the program that a script of .ci/newest-tor runs.
func programOf(path string, script []byte) ([]byte, error) {
	if !bytes.Contains(script, []byte("${CHIVE_TOR_PROGRAM-")) {
		return nil, fault.New(fault.Local, "%s is a script, and no one of make peers-tor: cannot make a relay without CGO of it", path)
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	bin, err := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(real)), "root/usr/bin/tor"))
	return bin, fault.Wrap(fault.Local, err)
}
