package wan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"time"

	"github.com/chivenet/chive/chivelab/internal/benchcirc"
	"github.com/chivenet/chive/chivelab/internal/shadowfile"
	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netfile"
)

// Simulation writes the networks of a comparison for the simulator Shadow: those of Run, with the same places, rates,
// paths, requests, programs and settings, each run in a directory of its own.
type Simulation struct {
	Plan    Plan
	Dir     string // must not be there
	Lab     string // paths of programs, which are dynamically linked: this one,
	Chive   string // the one whose "relay", "proxy" and "authority" are Chive's nodes,
	Tor     string // and C tor
	Version string // of Chive
	// TorVersion is that of C tor.
	TorVersion string
}

// Names in the directory of one run. Hosts see the template two levels up.
const (
	simConfig   = "shadow.yaml"
	simTemplate = "template"
	simData     = "shadow.data" // which the simulator makes
	simHosts    = "hosts"
	simState    = "state" // a node's files
	simTorrc    = "torrc"
	simWork     = "work.json"
	simAnswers  = "answers"
	simKeys     = "keys"
	authority0  = "authority"
	target0     = "target"
)

// When things begin, in the simulation. Until links lose packets and have their rates, all is started.
const (
	simAuthorityAt = time.Second
	simRelaysAt    = 3 * time.Second
	simClientsAt   = 60 * time.Second
	simLinksAt     = 170 * time.Second
	simRequestsAt  = 180 * time.Second
	simRelayApart  = 10 * time.Millisecond
	simClientApart = 37 * time.Millisecond
	simRound       = 20 * time.Second // until the first consensus
	simRoundDelay  = 4 * time.Second
	simAfter       = 5 * time.Second // when all clients have answered
)

// simulator is what sessions call it.
const simulator = "Shadow"

// name is the directory of a run.
func (t Task) name() string {
	return fmt.Sprintf("seed%d-%s-%s-%s", t.Seed, t.Side.Clients, t.Side.Relays, number(t.Loss*100))
}

// Write makes the directory.
func (s *Simulation) Write(ctx context.Context) (err error) {
	if err := s.Plan.Check(); err != nil {
		return err
	}
	for _, p := range []struct{ flag, name string }{{"--program", s.Lab}, {"--chive", s.Chive}, {"--tor", s.Tor}} {
		if err := shadowfile.CanRun(p.name); err != nil {
			return fault.New(fault.KindOf(err), "%s: %w", p.flag, err)
		}
	}
	if err := os.Mkdir(s.Dir, 0o755); err != nil {
		return fault.New(fault.Config, "%w: choose a new directory", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(s.Dir))
		}
	}()
	keys, err := s.makeKeys(ctx)
	if err != nil {
		return err
	}
	for _, t := range s.Plan.Tasks() {
		if err := s.writeTask(t, keys); err != nil {
			return err
		}
	}
	st := state{s.Plan, []Session{{time.Now().UTC().Truncate(time.Second), s.Version, s.TorVersion, "reno", simulator, benchcirc.ThisMachine()}}}
	return atomicfile.WriteJSON(filepath.Join(s.Dir, stateName), st, atomicfile.Report)
}

// makeKeys makes the nodes' keys, which all runs share, and returns who has them.
func (s *Simulation) makeKeys(ctx context.Context) (n nodes, err error) {
	n = nodes{chive: s.Chive, tor: s.Tor, file: up("network.toml"), empty: up("empty.toml"), fingerprints: map[string]string{},
		more: []string{"ServerDNSResolvConfFile " + up("resolv.conf")}}
	a, err := shadowfile.MakeAuthority(s.keysOf(authority0), authority0, netip.AddrPortFrom(authorityAddr, orPort), netip.AddrPortFrom(authorityAddr, dirPort))
	if err != nil {
		return n, err
	}
	text, err := netfile.Format(n.takeAuthority(a))
	if err != nil {
		return n, err
	}
	if err := os.WriteFile(filepath.Join(s.Dir, simKeys, "network.toml"), text, 0o644); err != nil {
		return n, fault.Wrap(fault.Local, err)
	}
	for _, r := range s.Plan.Layout(1).Relays { // names do not depend on the seed
		if ctx.Err() != nil {
			return n, fault.Ended(ctx, "%w", context.Cause(ctx))
		}
		id, err := shadowfile.MakeRelay(s.keysOf(r.Name))
		if err != nil {
			return n, err
		}
		n.fingerprints[r.Name] = id.String()
	}
	return n, nil
}

func (s *Simulation) keysOf(name string) string { return filepath.Join(s.Dir, simKeys, name) }

// up is a file that all hosts share, as they name it.
func up(name string) string { return path.Join("..", "..", name) }

// taskWriter writes one run.
type taskWriter struct {
	*Simulation
	nodes
	task   Task
	dir    string
	places shadowfile.Places
	hosts  []simHost
}

type simHost struct {
	name string
	shadowfile.Host
}

// writeTask writes the directory of a run.
func (s *Simulation) writeTask(t Task, n nodes) error {
	w := &taskWriter{Simulation: s, nodes: n, task: t, dir: filepath.Join(s.Dir, t.name())}
	w.layout = s.Plan.Layout(t.Seed)
	if err := os.MkdirAll(filepath.Join(w.dir, simTemplate, simHosts), 0o755); err != nil {
		return fault.Wrap(fault.Local, err)
	}
	for _, step := range []func() error{w.center, w.relays, w.clients, w.files} {
		if err := step(); err != nil {
			return err
		}
	}
	end := simRequestsAt + s.Plan.Window + s.Plan.Patience + simAfter
	c := shadowfile.New(shadowfile.General{StopTime: simTime(end), BootstrapEnd: simTime(simLinksAt), Seed: uint64(t.Seed), Template: simTemplate, Progress: true, LogLevel: "warning"}, &w.places)
	for _, h := range w.hosts {
		if err := c.Add(h.name, "", &h.Host); err != nil {
			return err
		}
	}
	text, err := c.Text()
	if err != nil {
		return err
	}
	return fault.Wrap(fault.Local, os.WriteFile(filepath.Join(w.dir, simConfig), text, 0o644))
}

func simTime(d time.Duration) string { return fmt.Sprintf("%d ms", d.Milliseconds()) }

// host adds a host at some distance from the middle. As in the emulator, packets are lost on the way to a host.
func (w *taskWriter) host(name string, addr netip.Addr, distance time.Duration, rate int64, ps ...shadowfile.Process) {
	place := shadowfile.Place{Up: distance, Down: distance, DownLoss: w.task.Loss}
	if name == authority0 { // nobody asks it once all is started
		place.DownLoss = 0
	}
	bits := shadowfile.Bits(shadowfile.Rate(rate))
	w.hosts = append(w.hosts, simHost{name, shadowfile.Host{Node: w.places.Number(place), Addr: addr.String(), Up: bits, Down: bits, Processes: ps}})
}

// hostDir makes a host's directory.
func (w *taskWriter) hostDir(name string) (string, error) {
	dir := filepath.Join(w.dir, simTemplate, simHosts, name)
	return dir, fault.Wrap(fault.Local, os.MkdirAll(filepath.Join(dir, simState), 0o700))
}

// giveKeys gives a node its keys.
func (w *taskWriter) giveKeys(name string) (dir string, err error) {
	if dir, err = w.hostDir(name); err != nil {
		return dir, err
	}
	return dir, fault.Wrap(fault.Local, os.CopyFS(filepath.Join(dir, simState, simKeys), os.DirFS(w.keysOf(name))))
}

func running(at time.Duration, command []string) shadowfile.Process {
	return shadowfile.Process{Path: command[0], Args: command[1:], Start: simTime(at), End: shadowfile.Running}
}

// center adds the authority and the server.
func (w *taskWriter) center() error {
	if _, err := w.giveKeys(authority0); err != nil {
		return err
	}
	w.host(authority0, authorityAddr, 0, 0, running(simAuthorityAt, []string{w.chive, "authority", "--config", w.empty, "--network", w.file, "--data-dir", simState,
		"--nickname", authority0, "--contact", "emulated", "--orport", netip.AddrPortFrom(authorityAddr, orPort).String(),
		"--dirport", netip.AddrPortFrom(authorityAddr, dirPort).String(), "--testing", "--assume-reachable", "--wait-for-relays", strconv.Itoa(len(w.layout.Relays)),
		"--initial-voting-interval", simRound.String(), "--initial-vote-delay", simRoundDelay.String(), "--initial-dist-delay", simRoundDelay.String(),
		"--voting-interval", laterRound.String(), "--vote-delay", roundDelay.String(), "--dist-delay", roundDelay.String(), "--intervals-valid", "12"}))
	w.host(target0, targetAddr, 0, 0, running(simAuthorityAt, []string{w.Lab, "bench", "wan", "target", netip.AddrPortFrom(targetAddr, webPort).String()}))
	return nil
}

// relays adds the relays.
func (w *taskWriter) relays() error {
	for i, r := range w.layout.Relays {
		dir, err := w.giveKeys(r.Name)
		if err != nil {
			return err
		}
		command := w.chiveRelay(simState, i, r)
		if w.task.Side.Relays == Tor {
			if err := os.WriteFile(filepath.Join(dir, simTorrc), lines(w.torRelay(simState, i, r)), 0o644); err != nil {
				return fault.Wrap(fault.Local, err)
			}
			command = w.torCommand(simTorrc)
		}
		w.host(r.Name, relayAddr(i), distance(r.Region), r.Rate, running(simRelaysAt+time.Duration(i)*simRelayApart, command))
	}
	return nil
}

// clients adds the clients: an onion router and what uses it.
func (w *taskWriter) clients() error {
	for i, c := range w.layout.Clients {
		dir, err := w.hostDir(c.Name)
		if err != nil {
			return err
		}
		command := w.chiveClient(simState, c)
		if w.task.Side.Clients == Tor {
			if err := os.WriteFile(filepath.Join(dir, simTorrc), lines(w.torClient(simState, c)), 0o644); err != nil {
				return fault.Wrap(fault.Local, err)
			}
			command = w.torCommand(simTorrc)
		}
		text, err := json.MarshalIndent(appointed{w.Plan.workOf(c), shadowfile.Begin.Add(simRequestsAt)}, "", " ")
		if err != nil {
			return fault.Wrap(fault.Local, err)
		}
		if err := os.WriteFile(filepath.Join(dir, simWork), text, 0o644); err != nil {
			return fault.Wrap(fault.Local, err)
		}
		at := simClientsAt + time.Duration(i)*simClientApart
		ask := running(at, []string{w.Lab, "bench", "wan", "ask", simWork, simAnswers})
		ask.End = shadowfile.Exited
		w.host(c.Name, clientAddr(i), distance(c.Region), clientRate, running(at, command), ask)
	}
	return nil
}

// files adds what all hosts share.
func (w *taskWriter) files() error {
	network, err := os.ReadFile(filepath.Join(w.Dir, simKeys, "network.toml"))
	if err != nil {
		return fault.Wrap(fault.Local, err)
	}
	for name, text := range map[string][]byte{"network.toml": network, "empty.toml": nil,
		"resolv.conf": []byte("nameserver 127.0.0.1\n")} { // nobody is there, and nobody asks: the target is an address
		if err := os.WriteFile(filepath.Join(w.dir, simTemplate, name), text, 0o644); err != nil {
			return fault.Wrap(fault.Local, err)
		}
	}
	return nil
}
