package authority

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/dirserver"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
)

// Files of the state directory.
const (
	srFile        = "shared-random.json"
	pinsFile      = "key-pins.json"
	historyFile   = "histories.json"
	certsFile     = "certificates"
	relaysFile    = "descriptors"
	consensusFile = "consensus-"
)

// maxStateFile bounds what is read back.
const maxStateFile = 256 << 20

// read reads a state file; nil when it is not there.
func (a *Authority) read(name string) ([]byte, error) {
	path := filepath.Join(a.cfg.Dir, name)
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && st.Size() > maxStateFile {
		return nil, fault.New(fault.Local, "%s has %d bytes", path, st.Size())
	}
	b, err := os.ReadFile(path)
	return b, fault.Wrap(fault.Local, err)
}

// load reads the state back. What cannot be read is an error: an authority
// that forgets quietly would vote differently.
func (a *Authority) load() error {
	if a.cfg.Dir == "" {
		return nil
	}
	if err := atomicfile.Sweep(a.cfg.Dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.Local, "authority state: %w", err)
	}
	for name, v := range map[string]any{srFile: &a.sr, historyFile: &a.histories} {
		b, err := a.read(name)
		if err == nil && b != nil {
			err = json.Unmarshal(b, v)
		}
		if err != nil {
			return fault.New(fault.Local, "authority state: %s: %w", name, err)
		}
	}
	if a.cfg.Now().Sub(a.sr.ValidAfter) > 2*srRounds*a.cfg.Schedule.Interval {
		a.sr = sharedRandom{} // of another run of the protocol
	}
	var pairs map[string]string
	b, err := a.read(pinsFile)
	if err == nil && b != nil {
		err = json.Unmarshal(b, &pairs)
	}
	if err != nil {
		return fault.New(fault.Local, "authority state: %s: %w", pinsFile, err)
	}
	for r, e := range pairs {
		rsa, err1 := ident.ParseRSAID(r)
		ed, err2 := ident.ParseEd25519ID(e)
		if err := errors.Join(err1, err2); err != nil {
			return fault.New(fault.Local, "authority state: %s: %w", pinsFile, err)
		}
		a.pins.add(rsa, ed)
	}
	if b, err = a.read(certsFile); err != nil {
		return err
	}
	netdoc.ParseAuthCerts(b, func(c *netdoc.AuthCert, err error) {
		if err == nil {
			a.addCertLocked(c)
		}
	})
	if b, err = a.read(relaysFile); err != nil {
		return err
	}
	now := a.cfg.Now()
	netdoc.ParseRouterDescs(b, now, func(d *netdoc.RouterDesc, err error) {
		if err == nil {
			err = a.addDescriptor(d, nil, now)
		}
		if err != nil {
			a.log.Debug("saved descriptor not used", "err", err)
		}
	})
	return a.loadConsensuses()
}

func (a *Authority) loadConsensuses() error {
	for _, f := range []netdoc.Flavor{netdoc.FlavorNS, netdoc.FlavorMicrodesc} {
		b, err := a.read(consensusFile + f.String())
		if err != nil || b == nil {
			return err
		}
		c, err := netdoc.ParseConsensus(b, nil, func(*netdoc.RouterStatus) error { return nil })
		if err != nil {
			return err
		}
		verdict := c.Verify(a.cfg.Network.V3Idents(), a.certLocked, a.cfg.Now())
		if verdict.Err() != nil || a.cfg.Now().After(c.ValidUntil) {
			continue
		}
		served, err := dirserver.NewConsensus(b)
		if err != nil {
			return err
		}
		a.docs.SetConsensus(served)
		if f == netdoc.FlavorNS {
			a.current = c
		}
	}
	return nil
}

// saveConsensus writes a published consensus.
func (a *Authority) saveConsensus(c *dirserver.Consensus) error {
	if a.cfg.Dir == "" {
		return nil
	}
	return WriteSecret(filepath.Join(a.cfg.Dir, consensusFile+c.Flavor.String()), c.Doc.Bytes())
}

// saveLocked writes the rest of the state.
func (a *Authority) saveLocked() error {
	if a.cfg.Dir == "" {
		return nil
	}
	pairs := map[string]string{}
	for rsa, ed := range a.pins.rsa {
		pairs[rsa.String()] = ed.String()
	}
	a.histories.forget(a.cfg.Now())
	for name, v := range map[string]any{srFile: &a.sr, historyFile: &a.histories, pinsFile: pairs} {
		b, err := json.Marshal(v)
		if err != nil {
			return fault.Wrap(fault.Local, err)
		}
		if err := WriteSecret(filepath.Join(a.cfg.Dir, name), b); err != nil {
			return err
		}
	}
	var certs, descs []byte
	for _, c := range a.certs {
		certs = append(certs, c.Text...)
	}
	for _, r := range a.relays {
		descs = append(descs, r.desc.Text...)
	}
	if err := WriteSecret(filepath.Join(a.cfg.Dir, certsFile), certs); err != nil {
		return err
	}
	return WriteSecret(filepath.Join(a.cfg.Dir, relaysFile), descs)
}

// saveHistories writes the state when the authority ends.
func (a *Authority) saveHistories() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.saveLocked()
}
