package hsservice

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hscrypto"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
)

// A backend of OnionBalance is a service like any other. Besides, a frontend names the
// backend's introduction points in the descriptor of another address, the master's.
// Clients of the master encrypt introductions with a secret of the master's address;
// this secret follows from the address, so a backend needs no key of the master.

const (
	// fileMasters names the masters of a service, as C tor has it (tor(1),
	// HiddenServiceOnionBalanceInstance).
	fileMasters  = "ob_config"
	optionMaster = "MasterOnionAddress"

	// MaxMasters is how many masters a service may have: each introduction that cannot
	// be read costs three tries for each.
	MaxMasters = 8
)

// ReadMasters reads the addresses of a service's masters from the file ob_config in its
// directory; none if there is no such file. Like C tor, it ignores lines of other options.
func ReadMasters(dir string) ([]string, error) {
	path := filepath.Join(dir, fileMasters)
	b, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	for line := range strings.Lines(string(b)) {
		line, _, _ = strings.Cut(line, "#")
		word, value, _ := strings.Cut(strings.Replace(strings.TrimSpace(line), "\t", " ", 1), " ")
		if strings.EqualFold(word, optionMaster) {
			out = append(out, strings.Trim(strings.TrimSpace(value), `"`))
		}
	}
	if out == nil {
		return nil, fault.New(fault.Config, "%s: it has no line %q: write one, or remove the file", path, optionMaster+" ADDRESS")
	}
	return out, nil
}

// ParsePeers reads the onion addresses of other services: masters, or backends. what
// names them in errors. An address that is given twice counts once.
func ParsePeers(what string, addresses []string) (out []ident.Ed25519ID, err error) {
	for _, a := range addresses {
		id, err := hscrypto.ParseAddress(a)
		if err != nil {
			return nil, fault.New(fault.Config, "onion service: %s: %w", what, err)
		}
		if hscrypto.Address(id) != strings.ToLower(a) {
			return nil, fault.New(fault.Config, "onion service: %s: there is more than an address of 56 letters and digits and .onion", what)
		}
		if !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out, nil
}

// checkPeers refuses a service among its own masters or backends, and too many of them.
func checkPeers(what string, list []ident.Ed25519ID, self ident.Ed25519ID, most int) error {
	if len(list) > most {
		return fault.New(fault.Config, "onion service: %d %s, more than %d", len(list), what, most)
	}
	if slices.Contains(list, self) {
		return fault.New(fault.Config, "onion service: its own address is among its %s", what)
	}
	return nil
}

// setMastersLocked computes the secrets of the masters. A client's consensus may be older or
// newer than ours, so the periods before and after the present one count, too.
func (s *Service) setMastersLocked(d *netdir.Directory) error {
	p := d.HSTimes(s.cfg.Network.Testing()).Period
	if len(s.cfg.Masters) == 0 || p == s.mastersOf {
		return nil
	}
	var out [][32]byte
	for _, p := range []hscrypto.Period{p, p.Prev(), p.Next()} {
		for _, id := range s.cfg.Masters {
			blinded, err := hscrypto.Blind(id, p)
			if err != nil {
				return err
			}
			out = append(out, hscrypto.Subcredential(id, blinded))
		}
	}
	s.masters, s.mastersOf = out, p
	return nil
}

// introSecretsLocked returns the secrets that an introduction may be encrypted with.
func (s *Service) introSecretsLocked() [][32]byte {
	if s.masters == nil {
		return s.subcreds
	}
	return slices.Concat(s.subcreds, s.masters)
}
