package shadow

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/chivenet/chive/chivelab/internal/experiment"
	"github.com/chivenet/chive/chivelab/internal/shadowfile"
	"github.com/chivenet/chive/internal/fault"
)

// Names in the directory of an export.
const (
	configName  = "shadow.yaml"
	templateDir = "template"
	dataDir     = "shadow.data" // which the simulator makes
)

// Export is what makes a directory for the simulator.
type Export struct {
	File    *experiment.File
	Out     string        // must not be there, or be empty
	Relays  string        // program of relays and authorities
	Clients string        // program of clients that load the network
	Users   int           // how many of these there are
	Pause   time.Duration // of each of them after a page, on average
	Stop    time.Duration // when the simulation ends; 0: when all should be measured
	Lab     string        // path of a chivelab that is dynamically linked
	Chive   string        // path of what Chive's nodes are; "": Lab
	Tor     string        // path of C tor, if there are nodes of it
}

// Exported says what was written.
type Exported struct {
	Hosts int
	Stop  time.Duration
}

// Do writes the directory. If it cannot, it removes what it has written.
func (x *Export) Do(ctx context.Context) (e Exported, err error) {
	if x.Chive == "" {
		x.Chive = x.Lab
	}
	if err := x.check(); err != nil {
		return e, err
	}
	programs := map[string]string{"--program": x.Lab, "--chive": x.Chive}
	if x.Relays == Tor || x.Clients == Tor && x.Users > 0 {
		programs["--tor"] = x.Tor
	}
	for flag, name := range programs {
		if err := shadowfile.CanRun(name); err != nil {
			return e, fault.New(fault.KindOf(err), "%s: %w", flag, err)
		}
	}
	made, err := makeEmpty(x.Out)
	if err != nil {
		return e, err
	}
	defer func() {
		if err == nil {
			return
		}
		names := []string{filepath.Join(x.Out, configName), filepath.Join(x.Out, templateDir)}
		if made {
			names = []string{x.Out}
		}
		for _, n := range names {
			err = errors.Join(err, os.RemoveAll(n))
		}
	}()
	p := newPlan(x)
	if err := p.writeHosts(ctx); err != nil {
		return e, err
	}
	net, err := p.network()
	if err != nil {
		return e, err
	}
	conf, err := p.config()
	if err != nil {
		return e, err
	}
	files := map[string][]byte{
		configName: conf, in(experimentName): x.File.Text, in(networkName): net, in(weightsName): p.weights(), in(emptyName): nil,
		in(resolvName): []byte("nameserver 127.0.0.1\n"), // nobody is there, and nobody asks: all targets are addresses
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(x.Out, name), text, 0o644); err != nil {
			return e, fault.Wrap(fault.Local, err)
		}
	}
	return Exported{len(p.hosts), p.stop()}, nil
}

func in(name string) string { return filepath.Join(templateDir, name) }

// makeEmpty makes a directory, or takes an empty one.
func makeEmpty(dir string) (made bool, err error) {
	have, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, fault.Wrap(fault.Local, os.MkdirAll(dir, 0o755))
	case err != nil:
		return false, fault.Wrap(fault.Local, err)
	case len(have) > 0:
		return false, fault.New(fault.Config, "%s is not empty: choose another directory", dir)
	}
	return false, nil
}

// writeHosts writes the directories of hosts.
func (p *plan) writeHosts(ctx context.Context) error {
	dir := func(h *host) string { return filepath.Join(p.Out, templateDir, hostsDir, h.name) }
	errs := make([]error, len(p.hosts))
	var making sync.WaitGroup
	places := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i, h := range p.hosts {
		errs[i] = fault.Wrap(fault.Local, os.MkdirAll(dir(h), 0o755))
		if errs[i] != nil || !h.isNode() {
			continue
		}
		places <- struct{}{}
		making.Go(func() {
			defer func() { <-places }()
			if ctx.Err() != nil {
				errs[i] = fault.Ended(ctx, "%w", context.Cause(ctx))
				return
			}
			errs[i] = h.makeKeys(filepath.Join(dir(h), stateDir, "keys"))
		})
	}
	making.Wait()
	for _, err := range errs { // one tells enough: all are of one disk, or of one end
		if err != nil {
			return err
		}
	}
	for _, h := range p.hosts {
		if !(h.role == roleUser && p.Clients == Tor || h.isNode() && p.Relays == Tor) {
			continue
		}
		if err := os.MkdirAll(filepath.Join(dir(h), stateDir), 0o700); err != nil {
			return fault.Wrap(fault.Local, err)
		}
		if err := os.WriteFile(filepath.Join(dir(h), torrcName), p.torrc(h), 0o644); err != nil {
			return fault.Wrap(fault.Local, err)
		}
	}
	return nil
}

// isNode is true of authorities and relays, which have keys.
func (h *host) isNode() bool {
	return h.role == experiment.RoleAuthority || h.role == experiment.RoleRelay || h.role == experiment.RoleExit
}

// Next is the command that comes next.
func (x *Export) Next() string {
	return fmt.Sprintf("(cd %s && shadow %s > shadow.log) && chivelab shadow import %s", x.Out, configName, x.Out)
}
