package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/devp2p"
	"github.com/chivenet/chive/devp2p/internal/identity"
	"github.com/chivenet/chive/program"
	"github.com/chivenet/chive/program/commandline"
)

// tor is how a command reaches onions: flags that several commands share.
type tor struct {
	networkFile string
	proxy       string
	control     string
	password    string // the file with the password
	policy      string
	prefer      bool
	only        bool
	isolate     bool

	client *chive.Client // of open: the Tor client in this program, if that is used
}

func (s *tor) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Var(commandline.Word(&s.policy, policies()), "policy", "`POLICY` by which peers are reached: clearnet, prefer-onion, only-onion or adaptive (default only-onion)")
	f.BoolVar(&s.prefer, "prefer-tor", false, "the same as --policy prefer-onion")
	f.BoolVar(&s.only, "only-onion", false, "the same as --policy only-onion")
	s.torFlags(cmd)
}

// torFlags are the flags of commands that reach onions only.
func (s *tor) torFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.proxy, "tor-proxy", "", "`ADDR` of a Tor daemon's SOCKS port, such as 127.0.0.1:9050, to use instead of the Tor client in this program")
	f.StringVar(&s.control, "tor-control", "127.0.0.1:9051", "with --tor-proxy: `ADDR` of the daemon's control port, where this node's onion is made")
	f.StringVar(&s.password, "tor-password-file", "", "with --tor-proxy: `FILE` with the password of the control port (default: the daemon's cookie)")
	f.BoolVar(&s.isolate, "isolate-peers", true, "reach each peer over circuits of its own")
}

// policies returns the values of --policy.
func policies() (all []string) {
	for _, p := range devp2p.Policies {
		all = append(all, string(p))
	}
	return all
}

// choose returns the policy. Flags that contradict each other are an error.
func (s *tor) choose() (devp2p.Policy, error) {
	chosen := s.policy
	for _, f := range []struct {
		set    bool
		policy devp2p.Policy
	}{{s.prefer, devp2p.PreferOnion}, {s.only, devp2p.OnlyOnion}} {
		if !f.set {
			continue
		}
		if chosen != "" && chosen != string(f.policy) {
			return "", fmt.Errorf("two policies: %s and %s", chosen, f.policy)
		}
		chosen = string(f.policy)
	}
	if chosen == "" {
		return devp2p.OnlyOnion, nil
	}
	return devp2p.ParsePolicy(chosen)
}

// open returns what reaches onions, and a function that ends it. It opens nothing with
// policy clearnet.
func (s *tor) open(policy devp2p.Policy, dataDir string, log *slog.Logger) (devp2p.Onions, func() error, error) {
	if !policy.AllowsOnion() {
		if s.proxy != "" {
			return nil, nil, errors.New("--tor-proxy has no use with policy clearnet")
		}
		return nil, func() error { return nil }, nil
	}
	if s.proxy != "" {
		onions, err := s.daemon(log)
		if err != nil {
			return nil, nil, err
		}
		return onions, onions.Close, nil
	}
	cfg := chive.Config{DataDir: filepath.Join(dataDir, "tor"), Logger: log}
	if s.networkFile != "" {
		network, err := chive.LoadNetwork(s.networkFile)
		if err != nil {
			return nil, nil, err
		}
		cfg.Network = network
	}
	client, err := chive.New(cfg)
	if err != nil {
		return nil, nil, err
	}
	s.client = client
	onions := devp2p.Embedded(client)
	return onions, func() error { return errors.Join(onions.Close(), client.Close()) }, nil
}

// maxPassword bounds a password file, in bytes.
const maxPassword = 4 << 10

// daemon reaches onions by a Tor daemon.
func (s *tor) daemon(log *slog.Logger) (devp2p.Onions, error) {
	cfg := devp2p.TorProxyConfig{SOCKS: s.proxy, Control: s.control, Log: log}
	if s.password != "" {
		raw, err := program.ReadFile(s.password, maxPassword)
		if err != nil {
			return nil, fmt.Errorf("--tor-password-file: %w", err)
		}
		cfg.Password = strings.TrimRight(string(raw), "\r\n")
	}
	return devp2p.TorProxy(cfg)
}

// number is the value of a flag.
type number struct {
	flag  string
	value int
}

// positive refuses numbers below one: elsewhere, zero stands for a default.
func positive(all ...number) error {
	for _, n := range all {
		if n.value < 1 {
			return fmt.Errorf("--%s %d: it is 1 at least", n.flag, n.value)
		}
	}
	return nil
}

// addresses refuses values of flags, by the flags' names, that are no IP address and port. A name
// would be looked up by the system.
func addresses(flags map[string]string) error {
	for _, flag := range slices.Sorted(maps.Keys(flags)) {
		if _, err := netip.ParseAddrPort(flags[flag]); err != nil && flags[flag] != "" {
			return fmt.Errorf("--%s: %q is not IP:PORT", flag, flags[flag])
		}
	}
	return nil
}

// loopback is addresses for ports that only this machine may reach: program.ListenLoopback would refuse them when much
// has begun.
func loopback(flags map[string]string) error {
	if err := addresses(flags); err != nil {
		return err
	}
	for _, flag := range slices.Sorted(maps.Keys(flags)) {
		if at, err := netip.ParseAddrPort(flags[flag]); err == nil && !at.Addr().IsLoopback() {
			return fmt.Errorf("--%s: %q is not an address of loopback, such as 127.0.0.1:8545", flag, flags[flag])
		}
	}
	return nil
}

// port refuses what is no port. 0 has a meaning of its own.
func port(flag string, n int) error {
	if n < 0 || n > 65535 {
		return fmt.Errorf("--%s: %d is not from 0 to 65535", flag, n)
	}
	return nil
}

// ownDir is dataDir for commands that keep state there: it locks the directory, so that a relay
// and a sidecar, which have the same default, do not share keys and a Tor client.
func ownDir(path string) (string, io.Closer, error) {
	dir, err := dataDir(path)
	if err != nil {
		return "", nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil { // others may not read it
		return "", nil, fmt.Errorf("--data-dir: %w", err)
	}
	lock, err := lockOwn(dir)
	if err != nil {
		return "", nil, err
	}
	pending, err := identity.Pending(dir)
	if err == nil && pending {
		err = fmt.Errorf("a change of the keys in %s was interrupted, and some are old and some are new: repeat chive-eth key new, which finishes it", dir)
	}
	if err != nil {
		return "", nil, errors.Join(err, lock.Close())
	}
	return dir, lock, nil
}

// lockOwn locks a directory of a relay or a sidecar.
func lockOwn(dir string) (io.Closer, error) {
	lock, err := program.LockDir(dir)
	if errors.Is(err, program.ErrInUse) {
		err = fmt.Errorf("a chive-eth relay or sidecar uses %s already, and nothing else can (--data-dir names another): %w", dir, program.ErrInUse)
	}
	return lock, err
}

// dataDir returns the directory of a command.
func dataDir(path string) (string, error) {
	if path != "" {
		return path, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("--data-dir is needed: %w", err)
	}
	return filepath.Join(home, ".chive-eth"), nil
}
