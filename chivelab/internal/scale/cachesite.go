package scale

import (
	"context"
	"encoding/base64"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/chivenet/chive/chivelab/internal/madenet"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/lab/child"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/netfile"
)

// cacheSite has a cache of each program, whose files have a made-up network.
type cacheSite struct {
	plan *Plan
	made *madenet.Net
	dirs []string
	kids []*child.Process
}

func (s *cacheSite) close() {
	for _, k := range s.kids {
		k.Stop()
	}
	for _, d := range s.dirs {
		os.RemoveAll(d)
	}
}

func (s *cacheSite) dir() (string, error) {
	d, err := os.MkdirTemp("", "chive-scale-")
	s.dirs = append(s.dirs, d)
	return d, fault.Wrap(fault.Local, err)
}

// startTor runs a relay of C tor's that caches directories.
func (s *cacheSite) startTor(ctx context.Context) (to peer, err error) {
	to.name = torName
	dir, err := s.dir()
	if err != nil {
		return to, err
	}
	s.plan.Progress("writing the files of C tor's cache")
	if err := s.made.WriteTor(dir); err != nil {
		return to, err
	}
	tor, _, err := ctor.Find(s.plan.Tor)
	if err != nil {
		return to, err
	}
	lines := append(s.made.Torrc(), "TestingTorNetwork 1", "DataDirectory "+dir, "Nickname torscale", "ContactInfo lab", "Address 127.0.0.1", "SocksPort 0",
		"ORPort 127.0.0.1:auto IPv4Only", "AssumeReachable 1", "PublishServerDescriptor 0", "ExitRelay 0", "GeoIPFile /dev/null", "GeoIPv6File /dev/null",
		"__DisablePredictedCircuits 1", "UseEntryGuards 0", "Log notice stdout", "RunAsDaemon 0", "ShutdownWaitLength 0")
	rc := filepath.Join(dir, "torrc")
	if err := os.WriteFile(rc, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		return to, fault.Wrap(fault.Local, err)
	}
	var mu sync.Mutex
	var port string
	kid, _, err := child.Run(ctx, s.plan.Log, exec.Command(tor, "--defaults-torrc", "/nonexistent", "-f", rc), func(l string) bool {
		_, at, ok := strings.Cut(l, "Opened OR listener connection (ready) on ")
		if ok {
			mu.Lock()
			defer mu.Unlock()
			port = strings.TrimSpace(at)
		}
		return ok
	})
	if err != nil {
		return to, err
	}
	s.kids = append(s.kids, kid)
	to.pid = kid.PID()
	mu.Lock()
	defer mu.Unlock()
	if to.or, err = netip.ParseAddrPort(port); err != nil {
		return to, fault.Wrap(fault.Local, err)
	}
	return to, s.torKeys(ctx, dir, &to)
}

// torKeys waits for the files in which C tor says who it is.
func (s *cacheSite) torKeys(ctx context.Context, dir string, to *peer) error {
	var rsa, ed []byte
	for {
		var err, err2 error
		rsa, err = os.ReadFile(filepath.Join(dir, "fingerprint"))
		ed, err2 = os.ReadFile(filepath.Join(dir, "fingerprint-ed25519"))
		if err == nil && err2 == nil && len(rsa) > 0 && len(ed) > 0 {
			break
		}
		if err := pause(ctx, pollEvery); err != nil {
			return err
		}
	}
	words, edWords := strings.Fields(string(rsa)), strings.Fields(string(ed))
	if len(words) != 2 || len(edWords) != 2 {
		return fault.New(fault.Local, "C tor's fingerprint is %q, %q", rsa, ed)
	}
	var err error
	if to.id.RSA, err = ident.ParseRSAID(words[1]); err != nil {
		return err
	}
	key, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(edWords[1], "="))
	if err != nil || len(key) != len(to.id.Ed) {
		return fault.New(fault.Local, "C tor's Ed25519 identity is %q", edWords[1])
	}
	copy(to.id.Ed[:], key)
	return nil
}

// startChive runs a relay of Chive's.
func (s *cacheSite) startChive(ctx context.Context) (to peer, err error) {
	to.name = chiveName
	dir, err := s.dir()
	if err != nil {
		return to, err
	}
	s.plan.Progress("writing the files of Chive's cache")
	if err := s.made.WriteChive(dir); err != nil {
		return to, err
	}
	text, err := netfile.Format(s.made.Network())
	if err != nil {
		return to, err
	}
	network := filepath.Join(dir, "network.toml")
	if err := os.WriteFile(network, text, 0o600); err != nil {
		return to, fault.Wrap(fault.Local, err)
	}
	kid, to, err := startRelay(ctx, s.plan, network, dir)
	if kid != nil {
		s.kids = append(s.kids, kid)
	}
	return to, err
}
