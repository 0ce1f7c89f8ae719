package chive

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sort"
	"time"

	"github.com/gofrs/flock"

	"github.com/chivenet/chive/internal/authority"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdoc"
)

// AuthorityConfig is what a directory authority needs to be told.
type AuthorityConfig struct {
	// Network names all authorities, this one among them.
	Network *Network
	// DataDir keeps the state, and below "keys" the keys, in C tor's formats:
	// MakeAuthorityKeys makes them, and so does tor-gencert.
	DataDir string
	Logger  *slog.Logger // nil is silence

	Nickname, Contact string
	// ORPort and DirPort are where to listen and to be found, "IP:PORT". The
	// ORPort serves directory streams and relays nothing.
	ORPort, DirPort string

	// VotingInterval is how often the authorities vote, whole seconds, 10 at
	// least; VoteDelay and DistDelay how long votes and signatures take. Zero: an
	// hour and five minutes each.
	VotingInterval, VoteDelay, DistDelay time.Duration
	// The same while there is no consensus. Zero: 30 minutes and five minutes
	// each.
	InitialVotingInterval, InitialVoteDelay, InitialDistDelay time.Duration
	IntervalsValid                                            int // of a consensus; 0: 3

	Params                         map[string]int32 // votes for consensus parameters
	ClientVersions, ServerVersions string           // recommended, comma-separated
	BandwidthFile                  string           // a v3bw file
	RelayList                      string           // path of C tor's approved-routers file
	ApprovedOnly                   bool             // take no relay that RelayList does not approve of
	IPv6                           bool             // test and vote on IPv6 addresses

	// MaxMemory bounds what others can make the authority hold, in bytes: links,
	// circuits, requests and uploads, without documents that are kept. Over it,
	// those that hold the most are closed. 0: DefaultMaxMemory; 32 MiB is the
	// least.
	MaxMemory uint64

	// AssumeReachable counts relays as running without a test.
	AssumeReachable bool
	// Testing gives every relay the Guard and HSDir flags and lets any number
	// of them share an address.
	Testing bool
	// WaitForRelays holds the first vote back until so many relays are known.
	WaitForRelays int
}

// Authority is a directory authority inside this program.
type Authority struct {
	inner     *authority.Authority
	relayList string // path; empty: none
	lock      *flock.Flock
	ports     []net.Listener
}

// NewAuthority loads the keys and the state and opens the ports; Run serves.
func NewAuthority(cfg AuthorityConfig) (*Authority, error) {
	if cfg.Network == nil || cfg.DataDir == "" {
		return nil, fault.New(fault.Config, "authority: a network and a data directory are needed")
	}
	if cfg.ApprovedOnly && cfg.RelayList == "" {
		return nil, fault.New(fault.Config, "authority: without a list of relays none is approved of")
	}
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return nil, fault.New(fault.Local, "data directory: %w", err)
	}
	a := &Authority{relayList: cfg.RelayList, lock: flock.New(filepath.Join(cfg.DataDir, "lock"))}
	ok, err := a.lock.TryLock()
	if err != nil {
		return nil, fault.New(fault.Local, "lock the data directory %s: %w", cfg.DataDir, err)
	}
	if !ok {
		return nil, fault.New(fault.Config, "the data directory %s is in use", cfg.DataDir)
	}
	if err := a.open(cfg); err != nil {
		return nil, errors.Join(err, a.close())
	}
	return a, nil
}

func (a *Authority) open(cfg AuthorityConfig) error {
	keys, err := authority.LoadKeys(filepath.Join(cfg.DataDir, "keys"), rand.Reader, time.Now())
	if err != nil {
		return err
	}
	if open := authority.ExposedKeys(filepath.Join(cfg.DataDir, "keys")); open != nil && cfg.Logger != nil {
		cfg.Logger.Warn("others on this machine can get at the authority's keys: they are for its user alone (chmod go-rwx)", "paths", open)
	}
	out := authority.Config{
		Nickname: cfg.Nickname, Contact: cfg.Contact, Keys: keys, Network: cfg.Network.dir, Dir: filepath.Join(cfg.DataDir, "state"), Log: cfg.Logger,
		Schedule: authority.Schedule{InitialInterval: cfg.InitialVotingInterval, InitialVoteDelay: cfg.InitialVoteDelay, InitialDistDelay: cfg.InitialDistDelay,
			Interval: cfg.VotingInterval, VoteDelay: cfg.VoteDelay, DistDelay: cfg.DistDelay, IntervalsValid: cfg.IntervalsValid},
		Accept: authority.AcceptConfig{AllowPrivateAddresses: cfg.Network.dir.Testing.AllowPrivateAddresses, ApprovedOnly: cfg.ApprovedOnly,
			AssumeReachable: cfg.AssumeReachable, IPv6: cfg.IPv6},
		ClientVersions: cfg.ClientVersions, ServerVersions: cfg.ServerVersions, BandwidthFile: cfg.BandwidthFile, WaitForRelays: cfg.WaitForRelays,
	}
	if out.MaxMemory, err = memoryBound(cfg.MaxMemory); err != nil {
		return err
	}
	for name, v := range cfg.Params {
		out.Params = append(out.Params, netdoc.Param{Name: name, Value: v})
	}
	sort.Slice(out.Params, func(i, j int) bool { return out.Params[i].Name < out.Params[j].Name })
	if cfg.Testing {
		out.Flags = authority.TestingFlags()
	}
	if cfg.RelayList != "" {
		if out.Accept.List, err = readRelayList(cfg.RelayList); err != nil {
			return err
		}
		out.Flags.ListBadExits, out.Flags.ListMiddleOnly = true, true
	}
	for _, p := range []struct {
		what, addr string
		at         *netip.AddrPort
		l          *net.Listener
	}{{"ORPort", cfg.ORPort, &out.ORPort, &out.ORListener}, {"DirPort", cfg.DirPort, &out.DirPort, &out.DirListener}} {
		want, err := netip.ParseAddrPort(p.addr)
		if err != nil {
			return fault.New(fault.Config, "%s: %w", p.what, err)
		}
		l, err := net.Listen("tcp", want.String())
		if err != nil {
			return fault.New(fault.Local, "%s: %w", p.what, err)
		}
		a.ports = append(a.ports, l)
		*p.at, *p.l = l.Addr().(*net.TCPAddr).AddrPort(), l
	}
	a.inner, err = authority.New(out)
	return err
}

func readRelayList(path string) (*authority.RelayList, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fault.New(fault.Config, "relay list: %w", err)
	}
	return authority.ParseRelayList(text)
}

// ReloadRelayList reads the file that RelayList names once more: for
// descriptors that come from now on, and for the next vote. Without one it does
// nothing.
func (a *Authority) ReloadRelayList() error {
	if a.relayList == "" {
		return nil
	}
	l, err := readRelayList(a.relayList)
	if err != nil {
		return err
	}
	a.inner.SetRelayList(l)
	return nil
}

// Run votes and serves until ctx ends.
func (a *Authority) Run(ctx context.Context) error {
	err := a.inner.Run(ctx)
	return errors.Join(err, a.close())
}

// Relays returns how many relays the authority knows.
func (a *Authority) Relays() int { return a.inner.Relays() }

// AuthorityStatus is how an authority is, at about one moment.
type AuthorityStatus = authority.Status

// Status returns what the authority is doing.
func (a *Authority) Status() AuthorityStatus { return a.inner.Status() }

// Close releases an authority that does not run.
func (a *Authority) Close() error { return a.close() }

func (a *Authority) close() error {
	var errs []error
	for _, l := range a.ports {
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, fault.Wrap(fault.Local, err))
		}
	}
	return errors.Join(append(errs, a.lock.Unlock())...)
}

// AuthorityKeys are the public names of an authority's keys.
type AuthorityKeys struct {
	V3Ident string // of the v3 identity key, in hexadecimal
	RSA     string // relay identity, in hexadecimal
	Ed25519 string // relay identity, in base64
	Expires time.Time
}

// MakeAuthorityKeys makes what a directory authority signs with in a key
// directory: a v3 identity key when there is none, encrypted with the
// passphrase unless that is empty, and a new signing key with a certificate
// for some months. address is the DirPort, or "". It does what tor-gencert
// does, and its files are C tor's.
func MakeAuthorityKeys(dir, address string, months int, passphrase []byte) (*AuthorityKeys, error) {
	var addr netip.AddrPort
	if address != "" {
		var err error
		if addr, err = netip.ParseAddrPort(address); err != nil {
			return nil, fault.New(fault.Config, "address: %w", err)
		}
	}
	path := filepath.Join(dir, authority.IdentityFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		text, err = newIdentity(path, rand.Reader, passphrase)
	}
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	identity, err := authority.ParseRSA(text, passphrase)
	if err != nil {
		return nil, err
	}
	k, err := authority.Certify(rand.Reader, identity, addr, time.Now(), months)
	if err != nil {
		return nil, err
	}
	if err := k.Save(dir); err != nil {
		return nil, err
	}
	return LoadAuthorityKeys(dir)
}

func newIdentity(path string, random io.Reader, passphrase []byte) ([]byte, error) {
	identity, err := authority.GenerateIdentity(random)
	if err != nil {
		return nil, err
	}
	text, err := authority.EncodeIdentity(identity, passphrase)
	if err != nil {
		return nil, err
	}
	return text, authority.WriteSecret(path, text)
}

// LoadAuthorityKeys reads a key directory. Relay identities that are not there
// are made.
func LoadAuthorityKeys(dir string) (*AuthorityKeys, error) {
	k, err := authority.LoadKeys(dir, rand.Reader, time.Now())
	if err != nil {
		return nil, err
	}
	return &AuthorityKeys{V3Ident: k.Cert.Identity.String(), RSA: netdoc.RSADigest(&k.RSA.PublicKey).String(), Ed25519: k.Ed.Public().String(), Expires: k.Cert.Expires}, nil
}
