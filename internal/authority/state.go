package authority

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"net/netip"
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

// asideSuffix is added to the name of a file that is set aside.
const asideSuffix = ".corrupt"

// maxStateFile bounds the size of a state file that is read.
const maxStateFile = 256 << 20

// read returns a state file, or nil if it does not exist.
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

// load reads the state. It is an error if a file that determines the authority's
// votes cannot be read: without it, the authority would vote differently. A
// damaged file is set aside if others provide its contents again.
func (a *Authority) load() error {
	if a.cfg.Dir == "" {
		return nil
	}
	if err := atomicfile.Sweep(a.cfg.Dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.Local, "authority state: %w", err)
	}
	if err := a.docs.KeepIn(filepath.Join(a.cfg.Dir, earlierFolder), a.log); err != nil {
		a.log.Warn("consensuses are kept in memory only", "err", err)
	}
	for name, v := range map[string]any{srFile: &a.sr, historyFile: &a.histories} {
		b, err := a.read(name)
		if err == nil && b != nil {
			err = json.Unmarshal(b, v)
		}
		if err != nil {
			return a.unreadable(name, err)
		}
	}
	if a.cfg.Now().Sub(a.sr.ValidAfter) > 2*srRounds*a.cfg.Schedule.Interval {
		a.sr = sharedRandom{} // the state is of another run of the protocol
	}
	var pairs map[string]string
	b, err := a.read(pinsFile)
	if err == nil && b != nil {
		err = json.Unmarshal(b, &pairs)
	}
	if err != nil {
		return a.unreadable(pinsFile, err)
	}
	for r, e := range pairs {
		rsa, err1 := ident.ParseRSAID(r)
		ed, err2 := ident.ParseEd25519ID(e)
		if err := errors.Join(err1, err2); err != nil {
			return a.unreadable(pinsFile, err)
		}
		a.pins.add(rsa, ed)
	}
	if b, err = a.read(certsFile); err != nil {
		return err
	}
	some, bad := false, error(nil)
	netdoc.ParseAuthCerts(b, func(c *netdoc.AuthCert, err error) {
		some, bad = true, cmp.Or(bad, err)
		if err == nil {
			a.addCertLocked(c)
		}
	})
	if err := a.sound(certsFile, b, some, bad); err != nil {
		return err
	}
	if err := a.loadConsensuses(); err != nil { // before the relays, because the listed ones are known
		return err
	}
	if b, err = a.read(relaysFile); err != nil {
		return err
	}
	now := a.cfg.Now()
	some = false
	netdoc.ParseRouterDescs(b, now, func(d *netdoc.RouterDesc, err error) {
		some = true
		if err == nil {
			err = a.addDescriptor(d, nil, netip.Addr{}, now)
		}
		if err != nil { // most likely its certificate has expired
			a.log.Info("a saved descriptor is not used", "err", err)
		}
	})
	a.believeLocked()
	if err := a.makeListedMicrodescsLocked(); err != nil {
		return err
	}
	return a.sound(relaysFile, b, some, nil)
}

// unreadable returns the error for a file that the authority needs. It tells the
// operator what to do.
func (a *Authority) unreadable(name string, err error) error {
	return fault.New(fault.Config, "authority state: %s: %w: restore a copy, or move the file away to continue without its contents", filepath.Join(a.cfg.Dir, name), err)
}

// sound sets a file aside if it has none of the expected documents, or a damaged
// one.
func (a *Authority) sound(name string, text []byte, some bool, bad error) error {
	if !some && len(text) > 0 {
		bad = fault.New(fault.Directory, "the file has no document")
	}
	if bad == nil {
		return nil
	}
	return a.setAside(name, bad)
}

// setAside renames a damaged file, so that the operator can look at it.
func (a *Authority) setAside(name string, why error) error {
	path := filepath.Join(a.cfg.Dir, name)
	a.log.Warn("a file of the state is damaged; it is set aside, and others will provide its contents again", "file", name, "aside", name+asideSuffix, "err", why)
	if err := os.Rename(path, path+asideSuffix); err != nil {
		return fault.New(fault.Local, "authority state: %w", err)
	}
	return nil
}

// earlierFolder has the consensuses of the last days.
const earlierFolder = "earlier-consensuses"

func (a *Authority) loadConsensuses() error {
	for _, f := range []netdoc.Flavor{netdoc.FlavorNS, netdoc.FlavorMicrodesc} {
		b, err := a.read(consensusFile + f.String())
		if err != nil {
			return err
		}
		if b == nil {
			continue
		}
		c, listed, err := readConsensus(b)
		if err != nil {
			if err := a.setAside(consensusFile+f.String(), err); err != nil {
				return err
			}
			continue
		}
		verdict := c.Verify(a.cfg.Network.V3Idents(), a.certLocked, a.cfg.Now())
		if verdict.Err() != nil {
			continue
		}
		if f == netdoc.FlavorNS {
			a.listed = listed // also from an expired consensus: these relays are tested before strangers
		}
		if a.cfg.Now().After(c.ValidUntil) {
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

// saveLocked writes the state except the consensuses.
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
		if err := a.saveJSON(name, v); err != nil {
			return err
		}
	}
	var certs []byte
	for _, c := range a.certs {
		certs = append(certs, c.Text...)
	}
	if err := WriteSecret(filepath.Join(a.cfg.Dir, certsFile), certs); err != nil {
		return err
	}
	return WriteSecret(filepath.Join(a.cfg.Dir, relaysFile), a.descriptorsLocked(maxStateFile))
}

// saveJSON writes one file of the state.
func (a *Authority) saveJSON(name string, v any) error {
	if a.cfg.Dir == "" {
		return nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fault.Wrap(fault.Local, err)
	}
	return WriteSecret(filepath.Join(a.cfg.Dir, name), b)
}

// descriptorsLocked returns relays' descriptors, known relays first, up to limit:
// with a longer file, the authority could not start.
func (a *Authority) descriptorsLocked(limit int) (out []byte) {
	now := a.cfg.Now()
	for _, known := range []bool{true, false} {
		for _, r := range a.relays.byRSA {
			if a.knownLocked(r, now) == known && len(out)+len(r.desc.Text) <= limit {
				out = append(out, r.desc.Text...)
			}
		}
	}
	return out
}

// saveHistories writes the state when the authority ends, because histories
// changed after the last round.
func (a *Authority) saveHistories() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.saveLocked()
}
