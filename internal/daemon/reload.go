package daemon

import (
	"errors"
	"slices"
)

// partly is the error of a reload after which all new settings are in use, except those of
// the parts that it names.
type partly struct{ error }

func (p partly) Unwrap() error { return p.error }

// reload reads the settings again. Live settings take effect at once; the log
// names other changed settings, which wait for the next start. The error is in the log, too.
func (p *Process) reload() error {
	if err := p.file.reopen(); err != nil {
		p.log.Error("reload: the log goes on into the file that was open", "err", err)
	}
	next, err := p.Settings.Reread()
	if err == nil {
		err = next.Check()
	}
	var inUse bool // the new settings, at least most of them
	if err == nil {
		err = p.node.reload(next.role)
		inUse = err == nil || errors.As(err, new(partly))
		err = next.Explain(err)
	}
	if !inUse {
		// An operator may ask again and again: the same mistake is in the log once.
		if text := err.Error(); text == p.mistake {
			p.log.Error("reload: the mistake is the same as before, and the settings in use stay")
		} else {
			p.log.Error("reload: the settings in use stay", "err", err)
			p.mistake = text
		}
		return err
	}
	live, waiting := p.Settings.Changes(next.Set)
	p.mistake, p.Settings.doc = "", next.doc
	memory := next.role
	if slices.Contains(waiting, "max-memory") {
		memory = p.Settings.role // what the node keeps to
	}
	p.heap.keep(memory.maxMemory())
	p.level.Set(next.role.common().LogLevel)
	if len(waiting) > 0 && !slices.Equal(waiting, p.waiting) {
		p.log.Warn("reloaded; these changes take effect at the next start", "options", waiting)
	}
	p.waiting = waiting
	p.takeOver(next)
	if wrong := p.controls.reread(); wrong != nil {
		err = partly{errors.Join(err, wrong)}
	}
	if err != nil {
		p.log.Error("reloaded, but what the error names goes on with its old settings, or has ended", "err", err, "changed", live)
		return err
	}
	p.log.Info("reloaded", "changed", live)
	return nil
}

// reloadAsked reloads for a request of the status socket.
func (p *Process) reloadAsked() reply {
	done := make(chan error, 1)
	select {
	case p.reloads <- done:
	case <-p.ending:
		return reply{Error: "it is ending"}
	}
	select {
	case err := <-done:
		if err != nil {
			return reply{Error: err.Error()}
		}
		return reply{Done: true}
	case <-p.ending:
		return reply{Error: "it is ending"}
	}
}
