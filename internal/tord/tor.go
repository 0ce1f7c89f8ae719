package tord

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/client"
	"github.com/chivenet/chive/internal/control"
	"github.com/chivenet/chive/internal/daemon"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics"
)

// tor is the running program. It is the control.Engine of its controllers.
type tor struct {
	*logs
	log     *slog.Logger
	src     *source
	parent  *parent // nil: the program runs in the foreground
	started time.Time
	ctx     context.Context
	server  *control.Server
	wg      sync.WaitGroup
	stop    chan string  // why the program ends
	ran     bool         // it has begun: who started it has read what it waited for
	lookups atomic.Int64 // of controllers, under way
	resting atomic.Bool  // the next client shall be dormant
	unused  atomic.Int64 // for how many nanoseconds nobody has used the last client
	rest    restFile     // guarded by changing after the start

	meters     meters
	bandwidths bandwidths
	draining   atomic.Bool // the relay ends, and what is open may go on for a while

	changing sync.Mutex // one change of the configuration at a time

	// Guarded by changing.
	listening []*controlListener
	told      map[string]bool     // notes in the log
	files     []string            // files to remove at the end
	renewed   time.Time           // the last new identity
	later     *time.Timer         // for the next one
	added     map[string]*added   // services of ADD_ONION, by their addresses
	rules     []client.Mapped     // of MAPADDRESS, of the client that has ended
	onionKeys map[string]onionKey // of ONION_CLIENT_AUTH_ADD, by the services' addresses

	native bool // the process has settings and a log of its own: see Native

	mu     sync.Mutex
	now    *plan          // guarded by mu
	node   *daemon.Hosted // guarded by mu; nil: DisableNetwork, or the client has ended
	relay  *hosted        // guarded by mu; nil: none
	phase  phase          // guarded by mu: the last that was told
	why    string         // guarded by mu: why it does not go on
	cookie []byte         // guarded by mu
	ports  []net.Addr     // guarded by mu: of the ports for controllers
	over   bool           // guarded by mu: nothing begins any more
}

// controlListener is an open port for controllers.
type controlListener struct {
	key  string
	l    net.Listener
	done chan struct{}

	rules atomic.Pointer[control.Rules] // what its controllers may do; nil: all
}

// keyOf tells ports apart. One that gets another list of what is allowed stays open, and one that had none does not.
func (p *controlPort) keyOf() string { return fmt.Sprint(p.Addr, p.Mode, p.list) }

// start opens all that the first configuration asks for.
func (t *tor) start(p *plan) error {
	t.changing.Lock()
	defer t.changing.Unlock()
	if err := os.MkdirAll(p.dataDir, 0o700); err != nil {
		return err
	}
	t.beginRestLocked(p)
	if err := t.takeLocked(nil, p); err != nil {
		return err
	}
	t.rest.ours = true
	t.saveRestLocked()
	if file := p.conf.one("PidFile"); file != "" { // last, as in C tor: another program may have this file and these ports
		return t.writeFile(file, strconv.Itoa(os.Getpid())+"\n", 0o644)
	}
	return nil
}

// writeFile writes a file that is removed at the end. A pipe is refused: nobody may read it, and
// it is not ours to remove.
func (t *tor) writeFile(path, text string, mode os.FileMode) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return fault.New(fault.Config, "%s: %w", path, atomicfile.ErrNotRegular)
	}
	if err := atomicfile.Write(path, []byte(text), mode); err != nil {
		return err
	}
	if !slices.Contains(t.files, path) {
		t.files = append(t.files, path)
	}
	return nil
}

// takeLocked has the program obey another plan. After an error it obeys the one before.
func (t *tor) takeLocked(before, p *plan) error {
	targets, err := t.logs.open(p.conf, t.src.line.quiet)
	if err != nil {
		return err
	}
	fresh, kept, err := t.openPortsLocked(p)
	if err == nil {
		if err = t.moveAll(before, p); err != nil {
			for _, l := range fresh {
				l.l.Close()
			}
		}
	}
	if err != nil {
		closeTargets(targets)
		return err
	}
	t.logs.use(targets)
	t.tellRelayLocked()
	for _, note := range p.notes {
		if !t.told[note] {
			t.told[note] = true
			t.log.Info(note)
		}
	}
	if err := t.writeSecretsLocked(p); err != nil {
		t.log.Warn("cannot write a file for controllers", "err", err)
		if before == nil {
			return err
		}
	}
	t.setPlan(p)
	t.servePortsLocked(p, fresh, kept)
	if p.portFile != "" {
		if err := t.writePortFileLocked(p); err != nil {
			t.log.Warn("the file for ControlPortWriteToFile was not written", "err", err)
		}
	}
	for _, l := range fresh { // last, because programs that wait for this look into the files then
		t.tellPort(l.l.Addr())
	}
	if _, node := t.plan(); before == nil && node == nil { // with DisableNetwork nothing else comes, and programs wait for a first step
		t.notice("Bootstrapped %d%% (%s): %s", phases[0].percent, phases[0].tag, phases[0].summary)
	}
	return nil
}

func (t *tor) setPlan(p *plan) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now = p
}

// plan returns the plan that is obeyed, and the client, which may be nil.
func (t *tor) plan() (*plan, *daemon.Hosted) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.now, t.node
}

// openPortsLocked opens the ports for controllers that are new, and returns those that stay, too.
func (t *tor) openPortsLocked(p *plan) (fresh, kept []*controlListener, err error) {
	taken := map[*controlListener]bool{}
	for _, port := range p.ports {
		key := port.keyOf()
		i := slices.IndexFunc(t.listening, func(l *controlListener) bool { return l.key == key && !taken[l] })
		if i >= 0 {
			taken[t.listening[i]] = true
			kept = append(kept, t.listening[i])
			continue
		}
		l, err := port.Listen()
		if err != nil {
			for _, l := range fresh {
				l.l.Close()
			}
			return nil, nil, err
		}
		fresh = append(fresh, &controlListener{key: key, l: l, done: make(chan struct{})})
	}
	return fresh, kept, nil
}

// servePortsLocked serves the new ports, and closes those that are no more.
func (t *tor) servePortsLocked(p *plan, fresh, kept []*controlListener) {
	for _, l := range t.listening {
		if !slices.Contains(kept, l) {
			l.l.Close()
			<-l.done
		}
	}
	t.listening = append(kept, fresh...)
	t.setAddrs()
	for _, l := range t.listening {
		for _, port := range p.ports {
			if port.keyOf() == l.key {
				l.rules.Store(port.rules)
			}
		}
	}
	for _, l := range fresh {
		door := control.Door{Admit: t.admit, Rules: l.rules.Load}
		if _, unix := l.l.Addr().(*net.UnixAddr); unix {
			door.Admit, door.Own = control.OwnUser, true
			for _, port := range p.ports {
				if port.open && port.keyOf() == l.key {
					door.Admit, door.Own = control.Anybody, false
				}
			}
		}
		t.wg.Go(panics.Contain(t.log, nil, func() {
			defer close(l.done)
			if err := t.server.Serve(t.ctx, l.l, door); err != nil && !fault.Is(err, fault.Closed) {
				t.log.Error("a port for controllers has ended", "err", err)
			}
		}))
	}
}

func (t *tor) setAddrs() {
	var all []net.Addr
	for _, l := range t.listening {
		all = append(all, l.l.Addr())
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ports = all
}

// addrs returns the addresses of the ports for controllers.
func (t *tor) addrs() []net.Addr {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ports
}

// tellPort writes the lines of a port for controllers.
func (t *tor) tellPort(a net.Addr) {
	t.tellListener("Control", a.String())
	if now, _ := t.plan(); a.Network() == "tcp" && now.secrets.None() && !now.cookie {
		t.log.Warn("the control port has no authentication: every program of this user can control this one; use CookieAuthentication or HashedControlPassword")
	}
}

// tellListener writes the lines of a port, for which programs wait. Each program takes another one of them, and connects at
// the first that it sees, so all come when the port is open.
func (t *tor) tellListener(name, addr string) {
	t.notice("Opening %s listener on %s", name, addr)
	if a, err := netip.ParseAddrPort(addr); err == nil {
		t.notice("%s listener listening on port %d.", name, a.Port())
	}
	t.notice("Opened %s listener connection (ready) on %s", name, addr)
}

// admit lets in whom a TCP port lets in: where there is no secret, only programs of this user.
func (t *tor) admit(c net.Conn) error {
	if a := t.secrets(); a.None() {
		return control.OwnUserWhereKnown(c)
	}
	return nil
}

// secrets says by what controllers authenticate now.
func (t *tor) secrets() control.Auth {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now == nil {
		return control.Auth{Cookie: make([]byte, control.CookieSize)[:0]} // nobody is let in before the first plan
	}
	a := t.now.secrets
	if t.now.cookie {
		a.Cookie = t.cookie
	}
	return a
}

// writeSecretsLocked makes a cookie, which is another one for each run of the program.
func (t *tor) writeSecretsLocked(p *plan) error {
	if !p.cookie {
		return nil
	}
	cookie := t.keepCookie()
	mode := os.FileMode(0o600)
	if p.conf.on("CookieAuthFileGroupReadable") {
		mode = 0o640
	}
	return t.writeFile(p.cookieAt, string(cookie), mode)
}

func (t *tor) keepCookie() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cookie == nil {
		t.cookie = make([]byte, control.CookieSize)
		rand.Read(t.cookie) // it never fails
	}
	return t.cookie
}

func (t *tor) writePortFileLocked(p *plan) error {
	var b strings.Builder
	for _, l := range t.listening {
		if a, ok := l.l.Addr().(*net.UnixAddr); ok {
			path, err := filepath.Abs(a.Name)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "UNIX_PORT=%s\n", path)
		} else {
			fmt.Fprintf(&b, "PORT=%s\n", l.l.Addr())
		}
	}
	mode := os.FileMode(0o600)
	if p.conf.on("ControlPortFileGroupReadable") {
		mode = 0o640
	}
	return t.writeFile(p.portFile, b.String(), mode)
}

// close ends all that is open, and waits. The context has ended, so no configuration is taken any more.
func (t *tor) close() error {
	t.closePorts()
	t.server.Close() // its sessions may wait for a change that goes on
	t.noMore()
	t.event.Store(nil)
	t.changing.Lock()
	defer t.changing.Unlock()
	if t.later != nil {
		t.later.Stop()
	}
	err := errors.Join(t.closeNode(), t.closeRelay())
	t.saveRestLocked()
	t.wg.Wait()
	for _, path := range t.files {
		if gone := os.Remove(path); gone != nil && !errors.Is(gone, os.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	return err
}

// noMore has background begin nothing any more.
func (t *tor) noMore() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
}

func (t *tor) closePorts() {
	t.changing.Lock()
	defer t.changing.Unlock()
	for _, l := range t.listening {
		l.l.Close()
	}
}
