package tord

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/client"
	"github.com/chivenet/chive/internal/daemon"
	"github.com/chivenet/chive/internal/panics"
)

// moveNode has the client obey a plan: it takes over what may change while it runs; for all else it ends, and
// another one begins. After an error, the client goes on as before.
func (t *tor) moveNode(before, p *plan) error {
	_, node := t.plan()
	p.settings.Apart(t.ownRelays())
	// Bridges may change while a client runs, but whether it has some may not.
	if node != nil && !p.offline && before.network == p.network && before.bridged == p.bridged {
		waiting, err := node.Reload(p.settings)
		if err == nil && len(waiting) == 0 {
			node.Inner().LeaveUnattached(p.conf.on("__LeaveStreamsUnattached"))
		}
		if err != nil || len(waiting) == 0 {
			return err
		}
	}
	if err := t.closeNode(); err != nil {
		t.log.Warn("the client has not saved all of its state", "err", err)
	}
	if p.offline {
		return p.makeOnionKeys()
	}
	err := t.openNode(p)
	if err != nil && node != nil {
		if again := t.openNode(before); again != nil {
			t.log.Error("the client could not begin again with the options from before", "err", again)
		}
	}
	return err
}

// openNode begins a client with its ports.
func (t *tor) openNode(p *plan) error {
	p.settings.Apart(t.ownRelays())
	p.settings.BeginUnused(t.resting.Load(), time.Duration(t.unused.Load()))
	node, err := p.settings.Host(t.log, func(c *client.Client) {
		c.LeaveUnattached(p.conf.on("__LeaveStreamsUnattached"))
		t.resumeRulesLocked(c)
		if p.findable {
			c.NeverAnonymous()
		}
	})
	if err != nil {
		return err
	}
	t.setNode(node)
	t.resumeOnionsLocked(node)
	for _, line := range node.Ports() {
		kind, addr, _ := strings.Cut(line, " ")
		t.tellListener(listenerNames[kind], addr)
	}
	t.tellRest(node)
	boots, cancel := node.Client().Subscribe(chive.BootstrapEvents)
	stop := node.Inner().Watch(t.watcher(node.Inner()))
	t.wg.Go(panics.Contain(t.log, nil, func() {
		defer cancel()
		defer stop()
		t.watch(node, boots)
	}))
	return nil
}

// listenerNames are C tor's words for ports.
var listenerNames = map[string]string{"socks": "Socks", "http": "HTTP tunnel", "dns": "DNS", "trans": "Transparent pf/netfilter"}

func (t *tor) setNode(n *daemon.Hosted) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.node, t.phase, t.why = n, phase{percent: -1}, ""
}

// closeNode ends the client, if there is one.
func (t *tor) closeNode() error {
	_, node := t.plan()
	if node == nil {
		return nil
	}
	t.setNode(nil)
	t.rules = node.Inner().Controlled()
	t.keepRest(node.Inner())
	return node.Close()
}

// resumeRulesLocked gives another client the rules of MAPADDRESS of the one before: without them, what a controller sends
// elsewhere would go where it must not.
func (t *tor) resumeRulesLocked(c *client.Client) {
	_, errs := c.MapAddresses(t.rules, [2]netip.Prefix{})
	if err := errors.Join(errs...); err != nil {
		t.log.Warn("rules of MAPADDRESS do not fit those of the configuration, and do not count any more", "rules", len(t.rules))
	}
}

// watch follows a client until it ends.
func (t *tor) watch(node *daemon.Hosted, boots <-chan chive.Event) {
	for {
		select {
		case e, ok := <-boots:
			if !ok {
				return
			}
			if e, ok := e.(*chive.BootstrapEvent); ok {
				t.bootstrapped(e.BootstrapStatus)
			}
		case err := <-node.Failed():
			t.log.Error("a port has ended", "err", err)
		case <-node.Client().Done():
			if err := node.Client().Err(); err != nil {
				t.log.Error("the client cannot continue", "err", err)
				t.end("the client cannot continue")
			}
			return
		}
	}
}

// wants implements teller.
func (t *tor) wants(event string) bool { return t.server.Wanted(event) }

// tell sends an event. An error means that something of it does not fit on a line.
func (t *tor) tell(name, text string) {
	if err := t.server.Event(name, text); err != nil {
		t.log.Warn("an event was not sent", "event", name, "err", err)
	}
}

// bootstrapped tells of a further step of the bootstrap, or of a problem with it.
func (t *tor) bootstrapped(b chive.BootstrapStatus) {
	p := phaseOf(b)
	t.mu.Lock()
	last, why := t.phase, t.why
	moved := p.percent > last.percent
	if !moved {
		p = last
	}
	t.phase, t.why = p, b.Problem
	t.mu.Unlock()
	if !moved && (b.Problem == "" || b.Problem == why) {
		return
	}
	switch {
	case t.native: // the process's own log has it
	case b.Problem != "" && !moved:
		t.log.Warn(fmt.Sprintf("Problem bootstrapping. Stuck at %d%% (%s): %s", p.percent, p.tag, p.summary), "why", b.Problem)
	default:
		t.notice("Bootstrapped %d%% (%s): %s", p.percent, p.tag, p.summary)
	}
	t.tell("STATUS_CLIENT", p.status(b.Problem))
	if !moved {
		return
	}
	if last.percent < 75 && p.percent >= 75 {
		t.tell("STATUS_CLIENT", "NOTICE ENOUGH_DIR_INFO")
	}
	if p.percent == 100 {
		t.tell("STATUS_CLIENT", "NOTICE CIRCUIT_ESTABLISHED")
	}
}

// everySecond looks after what nobody tells of.
func (t *tor) everySecond() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var read, written uint64
	counted := false
	var alive liveness
	var news serverNews
	var guards guardNews
	for {
		select {
		case <-t.ctx.Done():
			return
		case <-tick.C:
		}
		now, node := t.plan()
		if pid, err := strconv.Atoi(now.conf.one("__OwningControllerProcess")); err == nil && pid > 0 && !runs(pid) {
			t.end("Owning controller process has vanished. Exiting now.")
		}
		if node != nil {
			t.meters.second(t, node.Inner())
			guards.second(t, node.Inner())
			t.restUnused(now, node.Inner(), time.Now())
		}
		t.keepRestFile(node)
		relay := t.hostedRelay()
		news.second(t, relay)
		if word := alive.change(livenessOf(node, relay)); word != "" {
			t.tell("NETWORK_LIVENESS", word)
		}
		if !t.server.Wanted("BW") {
			counted = false
			continue
		}
		in, out := traffic(node, relay)
		if counted && in >= read && out >= written { // another client begins at zero
			t.tell("BW", fmt.Sprintf("%d %d", in-read, out-written))
			t.bandwidths.add(in-read, out-written)
		}
		read, written, counted = in, out, true
	}
}

// traffic returns the bytes of the links of client and relay together.
func traffic(node *daemon.Hosted, relay *hosted) (in, out uint64) {
	if node != nil {
		s := node.Client().Status()
		in, out = s.LinkIn, s.LinkOut
	}
	if relay != nil {
		s := &relay.Inner().Stats().Channel
		in, out = in+s.BytesIn.Load(), out+s.BytesOut.Load()
	}
	return in, out
}

// end has the program end.
func (t *tor) end(why string) {
	select {
	case t.stop <- why:
	default: // it ends already
	}
}
