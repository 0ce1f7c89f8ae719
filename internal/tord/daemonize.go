package tord

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	systemd "github.com/coreos/go-systemd/v22/daemon"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/torrc"
)

// asDaemon has the program run in the background: the process that was started ends when another one, in a session of its own, has
// opened its ports. C tor forks; a program in Go has threads from its start on and cannot, so it starts itself again.
const asDaemon = "RunAsDaemon"

// parent is the process that has started this one to run in the background, and waits until it is ready.
type parent struct {
	waits *os.File // its end of a pipe: anything written means that this program runs; its end, that it does not
}

// close has the parent end, with a failure if nothing has released it.
func (p *parent) close() {
	if p != nil && p.waits != nil {
		p.waits.Close()
		p.waits = nil
	}
}

// ready is what systemd hears when the program runs.
func (p *parent) ready() string {
	if p == nil {
		return systemd.SdNotifyReady
	}
	return fmt.Sprintf("%s\nMAINPID=%d", systemd.SdNotifyReady, os.Getpid())
}

// given is what a process hands to the one in the background: what cannot be read a second time.
type given struct {
	Piped []byte // from standard input
	Files []onceRead
}

type onceRead struct{ Path, Text []byte } // bytes: a path is not always UTF-8

func (s *source) give() given {
	g := given{Piped: s.piped}
	for path, text := range s.once {
		g.Files = append(g.Files, onceRead{[]byte(path), text})
	}
	return g
}

func (s *source) take(g given) {
	s.piped = g.Piped
	for _, f := range g.Files {
		s.keep(string(f.Path), f.Text)
	}
}

// checkDaemon refuses what a program in the background could not find again: it is in DataDirectory then.
func (p *plan) checkDaemon() error {
	if !p.conf.on(asDaemon) {
		return nil
	}
	if !canDaemonize {
		return fault.New(fault.Config, "%s 1 is not obeyed, so it is refused: on this system, a program does not go to the background", asDaemon)
	}
	var relative []string
	see := func(name, path string) {
		if !filepath.IsAbs(path) && !strings.HasPrefix(path, "~") {
			relative = append(relative, name+" "+path)
		}
	}
	for _, o := range allOptions() {
		for _, v := range p.conf[o.name] {
			if o.kind == "Filename" {
				see(o.name, v)
			}
		}
	}
	for _, l := range p.conf.onionLines() {
		if strings.EqualFold(l.Key, "HiddenServiceDir") {
			see(l.Key, l.Value)
		}
	}
	for _, v := range p.conf["Log"] {
		_, to, err := torrc.LogTarget(v)
		if err != nil {
			continue // it is refused elsewhere
		}
		if path, isFile := strings.CutPrefix(to, "file "); isFile {
			see("Log file", path)
		} else if slices.Contains([]string{"", "stdout", "stderr"}, strings.ToLower(to)) {
			p.notes = append(p.notes, fmt.Sprintf("Log %s: standard output ends when the program runs in the background", v))
		}
	}
	if len(relative) > 0 {
		return fault.New(fault.Config, "You have specified at least one relative path with the %s option (%s). It needs whole paths.", asDaemon, strings.Join(relative, ", "))
	}
	return nil
}
