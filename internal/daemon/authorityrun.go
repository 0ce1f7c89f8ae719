package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/panics"
	"github.com/coreos/go-systemd/v22/daemon"
)

// AuthorityProcess is a directory authority, run as a process.
type AuthorityProcess struct {
	Config chive.AuthorityConfig // with a Logger
	Out    io.Writer             // hears "ready"
	Hangup <-chan os.Signal      // asks to read the relay list again
}

// Run runs the authority until ctx ends, or it fails for good.
func (p *AuthorityProcess) Run(ctx context.Context) error {
	log := p.Config.Logger
	a, err := chive.NewAuthority(p.Config)
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
	fmt.Fprintln(p.Out, "ready")
	notify(log, daemon.SdNotifyReady)
	done := make(chan error, 1)
	go func() {
		defer panics.Recover(log, func(err error) { done <- err })
		done <- a.Run(ctx)
	}()
	stopping := ctx.Done()
	for {
		select {
		case err := <-done:
			return err
		case <-stopping:
			notify(log, daemon.SdNotifyStopping)
			stopping = nil
		case <-p.Hangup:
			if err := a.ReloadRelayList(); err != nil {
				log.Error("reload: the relay list in use stays", "err", err)
				continue
			}
			log.Info("reloaded: the relay list; other options wait for the next start")
		}
	}
}
