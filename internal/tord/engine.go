package tord

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/chivenet/chive/internal/control"
	"github.com/chivenet/chive/internal/ctlwire"
	"github.com/chivenet/chive/internal/daemon"
	"github.com/chivenet/chive/internal/panics"
)

// Get implements control.Engine.
func (t *tor) Get(name string) ([]control.Line, error) {
	now, _ := t.plan()
	return now.conf.get(name)
}

// Set implements control.Engine.
func (t *tor) Set(changes []control.Line, _ bool) error {
	t.changing.Lock()
	defer t.changing.Unlock()
	now, _ := t.plan()
	next, err := now.conf.set(changes)
	if err != nil {
		return err
	}
	return t.changeLocked(now, next)
}

// changeLocked takes over another configuration, and tells controllers what has changed.
func (t *tor) changeLocked(now *plan, next conf) error {
	if t.ctx.Err() != nil || t.draining.Load() {
		return ctlwire.Errorf(ctlwire.Failed, "the program ends")
	}
	p, err := planOf(next)
	if err != nil {
		return ctlwire.Errorf(ctlwire.BadValue, "Unacceptable option value: %v", err)
	}
	if err := t.takeLocked(now, p); err != nil {
		return ctlwire.Errorf(ctlwire.BadConfig, "Unable to set option: %v", err)
	}
	if what := changed(now.conf, next); len(what) > 0 {
		for i := range what {
			what[i] = ctlwire.OneLine(what[i])
		}
		if err := t.server.EventLines("CONF_CHANGED", what); err != nil {
			t.log.Warn("an event was not sent", "event", "CONF_CHANGED", "err", err)
		}
	}
	return nil
}

// Load implements control.Engine.
func (t *tor) Load(text []byte) error {
	t.changing.Lock()
	defer t.changing.Unlock()
	lines, _, err := daemon.TorrcOf("LOADCONF", text)
	next := conf{}
	if err == nil {
		err = next.add(lines)
	}
	if err != nil {
		return ctlwire.Errorf(ctlwire.Unknown, "Invalid config file: Failed to parse/validate config: %v", err)
	}
	now, _ := t.plan()
	if err := next.follows(now.conf); err != nil {
		return err
	}
	return t.changeLocked(now, next)
}

// Save implements control.Engine.
func (t *tor) Save(force bool) error {
	t.changing.Lock()
	defer t.changing.Unlock()
	now, _ := t.plan()
	return t.src.save(now.conf, force)
}

// Disowned implements control.Engine.
func (t *tor) Disowned() { t.end("Owning controller connection has closed -- exiting now.") }

// renewEvery is the least time between two new identities. C tor has the same.
const renewEvery = 10 * time.Second

// Signal implements control.Engine.
func (t *tor) Signal(name string) {
	t.tell("SIGNAL", name)
	now, node := t.plan()
	if r := t.hostedRelay(); name == "SHUTDOWN" && r != nil {
		t.shutDown(now, r)
		return
	}
	switch name {
	case "HALT", "SHUTDOWN": // a client has nothing to drain, as in C tor
		t.end("Catching signal " + map[string]string{"HALT": "TERM", "SHUTDOWN": "INT"}[name] + ", exiting cleanly.")
	case "RELOAD":
		t.reread()
	case "NEWNYM":
		t.renew()
	case "CLEARDNSCACHE":
		if node != nil {
			node.ForgetNames()
		}
	case "DEBUG":
		t.debug.Store(true)
		t.notice("The log has all that it can have from now on.")
	case "DUMP", "HEARTBEAT":
		t.heartbeat(node)
	case "ACTIVE", "DORMANT":
		t.setDormant(name == "DORMANT")
	}
}

// SystemSignals are the signals of this system that the program obeys, beside those that all systems have.
func SystemSignals() []os.Signal { return slices.Collect(maps.Keys(systemSignals)) }

// process obeys a signal of the system.
func (t *tor) process(s os.Signal) {
	if name := signalNames()[s]; name != "" {
		t.Signal(name)
	}
}

// signalNames returns what tor calls the signals of the system.
func signalNames() map[os.Signal]string {
	names := maps.Clone(systemSignals)
	if names == nil {
		names = map[os.Signal]string{}
	}
	names[syscall.SIGTERM], names[os.Interrupt], names[syscall.SIGHUP] = "HALT", "SHUTDOWN", "RELOAD"
	return names
}

// reread takes the files again, unless the configuration says otherwise.
func (t *tor) reread() {
	t.changing.Lock()
	defer t.changing.Unlock()
	now, _ := t.plan()
	if !now.conf.on("__ReloadTorrcOnSIGHUP") {
		t.notice("Not reloading config file: the controller told us not to.")
		t.logs.use(t.reopened(now))
		return
	}
	t.notice("Received reload signal (hup). Reloading config and resetting internal state.")
	next, err := t.src.read()
	if err == nil {
		err = next.follows(now.conf)
	}
	if err == nil {
		for _, o := range allOptions() { // what controllers said of the process itself stays
			if v := now.conf[o.name]; o.transient() && len(v) > 0 && len(next[o.name]) == 0 {
				next[o.name] = v
			}
		}
		err = t.changeLocked(now, next)
	}
	if err != nil {
		t.log.Warn("the configuration was not read again, and stays as it was", "err", err)
	}
}

// reopened opens the files of the log again, after they were renamed.
func (t *tor) reopened(p *plan) []target {
	targets, err := t.logs.open(p.conf, t.src.line.quiet)
	if err != nil {
		t.log.Warn("the log goes to standard output alone", "err", err)
		return []target{{level: slog.LevelInfo, to: t.out}}
	}
	return targets
}

// renew makes a new identity, now or when the last one is old enough.
func (t *tor) renew() {
	t.changing.Lock()
	defer t.changing.Unlock()
	if wait := renewEvery - time.Since(t.renewed); !t.renewed.IsZero() && wait > 0 {
		t.log.Info("Rate limiting NEWNYM request: delaying by " + wait.Round(time.Second).String())
		if t.later == nil {
			t.later = time.AfterFunc(wait, panics.Contain(t.log, nil, func() {
				t.changing.Lock()
				defer t.changing.Unlock()
				t.later = nil
				t.renewLocked()
			}))
		}
		return
	}
	t.renewLocked()
}

func (t *tor) renewLocked() {
	t.renewed = time.Now()
	if _, node := t.plan(); node != nil {
		node.NewIdentity()
	}
}

// heartbeat logs how the client is.
func (t *tor) heartbeat(node *daemon.Hosted) {
	up := time.Since(t.started).Round(time.Second)
	if node == nil {
		t.notice("Heartbeat: up for %v, without a network.", up)
		return
	}
	s := node.Client().Status()
	t.notice("Heartbeat: up for %v, with %d circuits open, %d streams and %d links; %d bytes were read and %d written.", up, s.Circuits, s.Streams, s.Channels, s.LinkIn, s.LinkOut)
}

// logEvent tells controllers of a line of the log.
func (t *tor) logEvent(severity, text string) {
	if err := t.server.Event(severity, ctlwire.OneLine(text)); err != nil {
		// It would be another line of the log, and the next event of the same kind.
		t.toTargets(slog.LevelWarn, "a line of the log was not sent to controllers\n")
	}
}

// Info implements control.Engine.
func (t *tor) Info(key string) (control.Answer, error) {
	now, node := t.plan()
	for _, k := range t.infoKeys() {
		rest, ok := key, k.name == key
		if prefix, many := strings.CutSuffix(k.name, "*"); many {
			rest, ok = strings.CutPrefix(key, prefix)
		}
		if !ok {
			continue
		}
		a, err := k.get(&query{t, now, node, t.hostedRelay(), rest})
		if errors.Is(err, errNoKey) {
			break
		}
		return a, err
	}
	return control.Answer{}, ctlwire.Errorf(ctlwire.Unknown, "Unrecognized key %s", ctlwire.Quote(key))
}

// errNoKey is the error of a key below a prefix that is not there.
var errNoKey = fmt.Errorf("there is no such key")
