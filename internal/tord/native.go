package tord

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/control"
	"github.com/chivenet/chive/internal/ctlwire"
	"github.com/chivenet/chive/internal/daemon"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/panics"
)

// Native answers the controllers of chive proxy, chive relay and chive onion, which keep their options in Chive's own file. What
// there is to see and to steer is the same as in the program tor, and so are the answers. What would change the
// configuration is refused, with the place where it is.
type Native struct {
	*tor
	at     daemon.Controlled
	cancel context.CancelFunc
	stop   []func()
	leave  string // __LeaveStreamsUnattached, guarded by changing
}

var _ daemon.Controllers = (*Native)(nil)

// NewNative returns a Native that is not used yet.
func NewNative() *Native {
	return &Native{tor: &tor{logs: &logs{}, native: true, src: &source{line: &commandLine{}}}, leave: "0"}
}

// Handler implements daemon.Controllers.
func (n *Native) Handler() slog.Handler { return handler{l: n.logs} }

// Begin implements daemon.Controllers.
func (n *Native) Begin(at daemon.Controlled) *control.Server {
	t := n.tor
	n.at, t.log, t.started, t.ports = at, at.Log, time.Now(), at.Ports
	t.src.file = at.File
	t.ctx, n.cancel = context.WithCancel(context.Background())
	if at.Relay != nil {
		n.relay = &hosted{HostedRelay: at.Relay, cancel: n.cancel}
	}
	n.Reloaded()
	t.server = control.New(control.Config{Engine: n, Steering: n, Log: at.Log, Version: Version, Secrets: at.Secrets})
	tell := t.logEvent
	t.event.Store(&tell)
	if at.Client != nil {
		n.follow(at.Client)
	}
	if at.Relay != nil {
		t.wg.Go(panics.Contain(t.log, nil, func() {
			if lines, err := at.Relay.BridgeLines(t.ctx); err == nil { // who watches the process tells of an error
				n.relay.lines.Store(&lines)
			}
		}))
	}
	t.wg.Go(panics.Contain(t.log, nil, t.everySecond))
	return t.server
}

// follow has events made of what the client does.
func (n *Native) follow(c *daemon.Hosted) {
	n.changing.Lock()
	defer n.changing.Unlock()
	n.setNode(c)
	n.resumeOnionsLocked(c)
	boots, cancel := c.Client().Subscribe(chive.BootstrapEvents)
	n.stop = append(n.stop, cancel, c.Inner().Watch(n.watcher(c.Inner())))
	n.wg.Go(panics.Contain(n.log, nil, func() {
		for {
			select {
			case <-n.ctx.Done():
				return
			case e, ok := <-boots:
				if !ok {
					return
				}
				if e, ok := e.(*chive.BootstrapEvent); ok {
					n.bootstrapped(e.BootstrapStatus)
				}
			}
		}
	}))
}

// End implements daemon.Controllers.
func (n *Native) End() {
	n.event.Store(nil)
	n.noMore()
	n.cancel()
	for _, f := range n.stop {
		f()
	}
	n.endLater()
	n.wg.Wait()
}

// endLater has no new identity made any more.
func (n *Native) endLater() {
	n.changing.Lock()
	defer n.changing.Unlock()
	if n.later != nil {
		n.later.Stop()
	}
}

// notNative are the keys of GETINFO that are about C tor's configuration alone.
var notNative = []string{"config/defaults", "config-defaults-file"}

// infoKeys are the keys of GETINFO of this program.
func (t *tor) infoKeys() []infoKey {
	if !t.native {
		return allInfoKeys
	}
	out := slices.DeleteFunc(slices.Clone(allInfoKeys), func(k infoKey) bool { return slices.Contains(notNative, k.name) })
	for i := range out {
		switch out[i].name {
		case "config-file":
			out[i].help = "Chive's configuration file."
		case "config-text":
			out[i].help = "The options that GETCONF knows, as lines of a torrc."
		case "config/names":
			out[i].help = "The options that GETCONF knows, and their types."
			out[i].get = func(*query) (control.Answer, error) { return listed(nativeNames) }
		}
	}
	return out
}

// Signal implements control.Engine.
func (n *Native) Signal(name string) {
	n.tell("SIGNAL", name)
	_, node := n.plan()
	switch name {
	case "HALT", "SHUTDOWN":
		n.at.End(name == "HALT")
	case "RELOAD":
		n.at.Reload() // the log has the error
	case "NEWNYM":
		n.renew()
	case "CLEARDNSCACHE":
		if node != nil {
			node.ForgetNames()
		}
	case "DEBUG":
		n.at.Debug()
	case "DUMP", "HEARTBEAT":
		in, out := traffic(node, n.hostedRelay())
		n.log.Info("heartbeat", "up", time.Since(n.started).Round(time.Second), "read", in, "written", out)
	case "ACTIVE": // this process never is dormant
	}
}

// Disowned implements control.Engine.
func (n *Native) Disowned() {
	n.log.Info("the controller that had taken ownership has gone, so the process ends")
	n.at.End(false)
}

// errNoClient is the answer to commands that need a client.
func (n *Native) errNoClient() error {
	return ctlwire.Errorf(ctlwire.Failed, "this process is a relay: a client can do that, such as chive proxy")
}

// needsClient returns an error if there is no client.
func (n *Native) needsClient() error {
	if n.at.Client == nil {
		return n.errNoClient()
	}
	return nil
}

// AddOnion implements control.Onions.
func (n *Native) AddOnion(o control.Onion) (address, key string, err error) {
	if err := n.needsClient(); err != nil {
		return "", "", err
	}
	return n.tor.AddOnion(o)
}

// AddOnionKey implements control.OnionClients.
func (n *Native) AddOnionKey(k control.OnionKey) (bool, error) {
	if err := n.needsClient(); err != nil {
		return false, err
	}
	return n.tor.AddOnionKey(k)
}

// FetchDescriptor implements control.Descriptors.
func (n *Native) FetchDescriptor(address string, from []ident.RSAID) error {
	if err := n.needsClient(); err != nil {
		return err
	}
	return n.tor.FetchDescriptor(address, from)
}

// PostDescriptor implements control.Descriptors.
func (n *Native) PostDescriptor(address string, descriptor []byte, to []ident.RSAID) error {
	if err := n.needsClient(); err != nil {
		return err
	}
	return n.tor.PostDescriptor(address, descriptor, to)
}

// MapAddress implements control.Steering.
func (n *Native) MapAddress(rules []control.Line) []control.Mapping {
	err := n.needsClient()
	if err == nil {
		return n.tor.MapAddress(rules)
	}
	out := make([]control.Mapping, len(rules))
	for i := range out {
		out[i].Err = err
	}
	return out
}

// DropGuards implements control.Steering.
func (n *Native) DropGuards() error {
	if err := n.needsClient(); err != nil {
		return err
	}
	return n.tor.DropGuards()
}

// DropTimeouts implements control.Steering.
func (n *Native) DropTimeouts() error {
	if err := n.needsClient(); err != nil {
		return err
	}
	return n.tor.DropTimeouts()
}

// where says where the process has an option: its name there and the file, as far as they are known.
func (n *Native) where(key string) string {
	s := "the options of this process are on its command line: start it again with others"
	if n.at.File != "" {
		s = "the options of this process are in " + n.at.File + ": change them there, and send SIGNAL RELOAD"
	}
	if key != "" {
		s = strings.Replace(s, "the options", "the option "+key, 1)
		s = strings.NewReplacer(" are ", " is ", "change them", "change it").Replace(s)
	}
	return s
}
