package tord

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/daemon"
	"github.com/chivenet/chive/internal/panics"
	irelay "github.com/chivenet/chive/internal/relay"
	"github.com/chivenet/chive/relay"
)

// hosted is the relay that runs.
type hosted struct {
	*daemon.HostedRelay
	cancel context.CancelFunc
	lines  atomic.Pointer[[]string] // of a bridge, for its clients; nil: they are not known yet
	told   bool                     // the log has its ports and its identity
}

// moveAll has the relay and the client obey a plan. After an error, both go on as before. The relay comes first: the client
// avoids it.
func (t *tor) moveAll(before, p *plan) error {
	if err := t.moveRelay(before, p); err != nil {
		return err
	}
	err := t.moveNode(before, p)
	if err != nil && before != nil {
		if again := t.moveRelay(p, before); again != nil {
			t.log.Error("the relay could not begin again with the options from before", "err", again)
		}
	}
	return err
}

// moveRelay has the relay obey a plan: it takes over what may change while it runs; for all else it ends, and another one
// begins.
func (t *tor) moveRelay(before, p *plan) error {
	r := t.hostedRelay()
	if r != nil && p.relay != nil && !p.offline && before.network == p.network {
		if waiting, err := r.Reload(p.relay); err != nil || len(waiting) == 0 {
			return err
		}
	}
	if err := t.closeRelay(); err != nil {
		t.log.Warn("the relay has not saved all of its state", "err", err)
	}
	if p.relay == nil || p.offline {
		return nil
	}
	err := t.openRelay(p)
	if err != nil && r != nil {
		if again := t.openRelay(before); again != nil {
			t.log.Error("the relay could not begin again with the options from before", "err", again)
		}
	}
	return err
}

// openRelay begins a relay.
func (t *tor) openRelay(p *plan) error {
	r, err := p.relay.HostRelay(filepath.Join(p.dataDir, "pt_state"), p.memory.client, t.log)
	if err != nil {
		return err
	}
	rsa, ed := r.Relay().Fingerprint()
	if err := p.writeIdentity(rsa, ed); err != nil {
		return errors.Join(err, r.Close())
	}
	ctx, cancel := context.WithCancel(t.ctx)
	h := &hosted{HostedRelay: r, cancel: cancel}
	t.setRelay(h)
	t.wg.Go(panics.Contain(t.log, nil, func() {
		lines, err := r.BridgeLines(ctx)
		if err != nil && ctx.Err() == nil {
			t.log.Error("a transport of this bridge cannot be used", "err", err)
		}
		h.lines.Store(&lines)
	}))
	t.wg.Go(panics.Contain(t.log, nil, func() { t.followRelay(ctx, r.Relay()) }))
	return nil
}

// followRelay ends the program if the relay cannot go on.
func (t *tor) followRelay(ctx context.Context, r *relay.Relay) {
	select {
	case <-ctx.Done():
	case <-r.Done():
		if err := r.Err(); err != nil {
			t.log.Error("the relay cannot continue", "err", err)
			t.end("the relay cannot continue")
		}
	}
}

// closeRelay ends the relay, if there is one.
func (t *tor) closeRelay() error {
	r := t.hostedRelay()
	if r == nil {
		return nil
	}
	t.setRelay(nil)
	r.cancel()
	return r.Close()
}

func (t *tor) setRelay(r *hosted) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.relay = r
}

// hostedRelay returns the relay; nil: there is none.
func (t *tor) hostedRelay() *hosted {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.relay
}

// ownRelays returns the relays that the client's circuits avoid, as C tor's do: the one of this process, and those of the same
// operator.
func (t *tor) ownRelays() []string {
	r := t.hostedRelay()
	if r == nil {
		return nil
	}
	rsa, _ := r.Relay().Fingerprint()
	return append([]string{rsa}, r.Relay().Config().Family...)
}

// tellRelayLocked tells of a new relay's ports and identity, in the log of its plan.
func (t *tor) tellRelayLocked() {
	r := t.hostedRelay()
	if r == nil || r.told {
		return
	}
	r.told = true
	or, dir := r.Inner().Listening()
	for _, a := range or {
		t.tellListener("OR", a.String())
	}
	for _, a := range dir {
		t.tellListener("Directory", a.String())
	}
	t.tellIdentity(r.Relay())
}

// tellIdentity writes the lines by which programs and operators know a relay. A bridge has one that does not lead to it.
func (t *tor) tellIdentity(r *relay.Relay) {
	rsa, ed := r.Fingerprint()
	name := r.Config().Nickname
	if r.Config().Bridge {
		t.notice("Your Tor bridge's hashed identity key fingerprint is '%s %s'", name, hashed(rsa))
		return
	}
	t.notice("Your Tor server's identity key fingerprint is '%s %s'", name, strings.ToUpper(rsa))
	t.notice("Your Tor server's identity key ed25519 fingerprint is '%s %s'", name, ed)
}

// hashed is the fingerprint of a fingerprint, by which a bridge is known to those who must not find it.
func hashed(rsa string) string {
	b, err := hex.DecodeString(rsa)
	if err != nil {
		return ""
	}
	sum := sha1.Sum(b)
	return strings.ToUpper(hex.EncodeToString(sum[:]))
}

// writeIdentity writes the files with the relay's fingerprints, where C tor has them: programs read them.
func (p *plan) writeIdentity(rsa, ed string) error {
	files := map[string]string{"fingerprint": strings.ToUpper(rsa), "fingerprint-ed25519": ed}
	if p.conf.on("BridgeRelay") {
		files["hashed-fingerprint"] = hashed(rsa)
	}
	for name, print := range files {
		path := filepath.Join(p.dataDir, name)
		text := p.nickname() + " " + print + "\n"
		if old, err := os.ReadFile(path); err == nil && string(old) == text {
			continue
		}
		if err := atomicfile.Write(path, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// shutDown has the relay and the client take nothing new, and ends the program when what is open has ended, or after
// ShutdownWaitLength. A second request to end does not wait.
func (t *tor) shutDown(now *plan, r *hosted) {
	if !t.draining.CompareAndSwap(false, true) {
		t.end("Interrupt: exiting now.")
		return
	}
	t.notice("Interrupt: we have stopped accepting new connections, and will shut down in %s seconds. Interrupt again to exit now.", now.conf.one("ShutdownWaitLength"))
	t.wg.Go(panics.Contain(t.log, func(error) { t.end("Clean shutdown failed. Exiting.") }, func() {
		ctx, cancel := context.WithTimeout(t.ctx, maxShutdown)
		defer cancel()
		ports := t.drainPorts(ctx)
		err := r.Shutdown(ctx)
		cancel()
		<-ports
		if err != nil {
			t.log.Error("not all was saved at the end", "err", err)
		}
		t.end("Clean shutdown finished. Exiting.")
	}))
}

// drainPorts closes the ports of the client, as C tor does at once. Connections that are open end with ctx.
func (t *tor) drainPorts(ctx context.Context) (done <-chan struct{}) {
	ended := make(chan struct{})
	_, node := t.plan()
	if node == nil || !t.background(func() {
		defer close(ended)
		if err := node.Drain(ctx); err != nil {
			t.log.Info("programs still had connections", "err", err)
		}
	}) {
		close(ended)
	}
	return ended
}

// maxShutdown is longer than any wait of the relay itself.
const maxShutdown = 24 * time.Hour

// serverNews is what was told of a relay.
type serverNews struct {
	of        *hosted
	reachable bool
	met       map[string]time.Time
	state     string
}

// second tells what is new of the relay since a second ago (control-spec, "STATUS_SERVER").
func (n *serverNews) second(t *tor, r *hosted) {
	if r == nil {
		*n = serverNews{}
		return
	}
	s := r.Relay().Status()
	if n.of != r {
		*n = serverNews{of: r, met: map[string]time.Time{}, state: s.Hibernation}
		if !s.Reachable {
			for _, a := range s.ORPort {
				t.tell("STATUS_SERVER", "NOTICE CHECKING_REACHABILITY ORADDRESS="+a)
			}
		}
	}
	if s.Reachable && !n.reachable {
		n.reachable = true
		for _, a := range s.ORPort {
			t.tell("STATUS_SERVER", "NOTICE REACHABILITY_SUCCEEDED ORADDRESS="+a)
		}
	}
	for _, a := range r.Inner().Acceptances() {
		at := a.At.String()
		if n.met[at].Equal(a.Met) {
			continue
		}
		n.met[at] = a.Met
		t.tell("STATUS_SERVER", "NOTICE ACCEPTED_SERVER_DESCRIPTOR DIRAUTH="+at)
		if len(n.met) == s.Authorities {
			t.tell("STATUS_SERVER", "NOTICE GOOD_SERVER_DESCRIPTOR")
		}
	}
	if s.Hibernation != n.state {
		n.state = s.Hibernation
		t.tell("STATUS_SERVER", fmt.Sprintf("NOTICE HIBERNATION_STATUS STATUS=%s", strings.ToUpper(hibernation(s.Hibernation))))
	}
}

// hibernation is C tor's word for what the accounting lets a relay do.
func hibernation(state string) string {
	switch state {
	case "soft":
		return "soft"
	case "dormant", "waking":
		return "hard"
	}
	return "awake"
}

// nickname returns the relay's.
func (p *plan) nickname() string { return p.conf.one("Nickname") }

// listIdentity returns what --list-fingerprint prints. It makes missing keys and the files with fingerprints, and opens no port.
func (p *plan) listIdentity(kind string, log *slog.Logger) (string, error) {
	if err := os.MkdirAll(p.dataDir, 0o700); err != nil {
		return "", err
	}
	id, err := irelay.Identities(p.keyDir, p.conf.on("OfflineMasterKey"), log)
	if err != nil {
		return "", err
	}
	if err := p.writeIdentity(id.RSA.String(), id.Ed.String()); err != nil {
		return "", err
	}
	name := p.nickname()
	if kind == "ed25519" {
		return name + " " + id.Ed.String() + "\n", nil
	}
	digits := strings.ToUpper(id.RSA.String())
	var words []string
	for ; digits != ""; digits = digits[4:] {
		words = append(words, digits[:4])
	}
	return name + " " + strings.Join(words, " ") + "\n", nil
}
