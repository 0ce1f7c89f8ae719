package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/chivenet/chive/authority"
	"github.com/coreos/go-systemd/v22/daemon"
)

// AuthorityProcess is a directory authority, run as a process.
type AuthorityProcess struct {
	Config authority.Config // with a Logger
	Out    io.Writer        // hears "ready"
	Hangup <-chan os.Signal // asks to read the relay list again
}

// Run runs the authority until ctx ends, or it fails for good.
func (p *AuthorityProcess) Run(ctx context.Context) (err error) {
	log := p.Config.Logger
	a, err := authority.New(p.Config)
	if err != nil {
		return err
	}
	limitHeap(p.Config.MaxMemory)
	side := sideDoors{dataDir: p.Config.DataDir, status: func() any { return authorityReport{rolePrefix{"authority"}, a.Status()} }}
	_, closeSide, err := side.open(log)
	if err != nil {
		return errors.Join(err, a.Close())
	}
	defer closeSide()
	defer func() {
		if cerr := a.Close(); err == nil {
			err = cerr
		}
	}()
	fmt.Fprintln(p.Out, "ready")
	notify(log, daemon.SdNotifyReady)
	for {
		select {
		case <-a.Done():
			return a.Err()
		case <-ctx.Done():
			notify(log, daemon.SdNotifyStopping)
			return nil
		case <-p.Hangup:
			if err := a.Reload(p.Config); err != nil {
				log.Error("reload: the relay list in use stays", "err", err)
				continue
			}
			log.Info("reloaded: the relay list; other options wait for the next start")
		}
	}
}
