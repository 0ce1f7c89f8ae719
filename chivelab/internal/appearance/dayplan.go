package appearance

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	mathrand "math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/chivenet/chive/authority"
	"github.com/chivenet/chive/chivelab/internal/shadowfile"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/netfile"
)

// Day is a network in the simulator Shadow, in which clients of two programs live for a day of simulated time. The
// authorities are C tor's, vote each hour and share randomness, as those of the public network do. All relays are one
// process of this program, which records.
type Day struct {
	Tor      string // paths of the programs, which are dynamically linked
	Lab      string
	Subjects [2]Subject
	Clients  int           // of each program in each role
	Before   time.Duration // from the begin until the clients start
	Time     time.Duration // from then
	Seed     uint64

	// How keys are made; nil: as they are for real. They take seconds, which a test does not have.
	relayKey      func() (*rsa.PrivateKey, error)
	authorityKeys func(dir, address string) (*authority.Keys, error)
}

// What the simulated network has.
const (
	dayRelays   = 12
	dayExits    = 6
	dayORPort   = 9001 // of authorities, and of the first relay
	dayBehind   = 7001 // what the first relay's recorder passes on to
	dayDirPort  = 9030
	dayWebPort  = 80
	daySOCKS    = "127.0.0.1:9050"
	dayUses     = 6 // pages that a user fetches, and visits to each service
	dayChurn    = time.Hour
	dayPlanName = "plan.json"
	dayNetwork  = "network.toml"
	// DayTrace is the file with what was recorded, below the directory of data that the simulator makes.
	DayTrace = "hosts/relays/trace.json"
)

// dayStart is when the simulator's clocks begin.
var dayStart = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// dayPlan tells the recording process what to be and whom to expect.
type dayPlan struct {
	Addr    netip.Addr
	Relays  []dayRelay
	Clients []dayClient
	End     time.Duration
	Server  netip.AddrPort
}

type dayRelay struct {
	Name  string
	Exit  bool
	Start time.Duration // since the simulator's begin
	rsa   ident.RSAID
}

type dayClient struct {
	Name, Subject, Role string
	Addr                netip.Addr
}

// Roles of a day's clients.
const (
	dayIdle    = "idle"    // nobody uses it
	dayUser    = "user"    // it fetches a page now and then
	dayService = "service" // it has an onion service, which is visited now and then
)

var dayRoles = []string{dayIdle, dayUser, dayService}

type (
	dayConfig struct {
		General shadowfile.General `yaml:"general"`
		Network struct {
			Graph shadowfile.Graph `yaml:"graph"`
		} `yaml:"network"`
		Hosts map[string]*dayHost `yaml:"hosts"`
	}
	dayHost struct {
		Node      int                  `yaml:"network_node_id"`
		Addr      string               `yaml:"ip_addr"`
		Processes []shadowfile.Process `yaml:"processes"`
	}
)

// dayGraph is one place, in which each packet takes 10 ms.
const dayGraph = `graph [
  node [
    id 0
    host_bandwidth_up "100 Mbit"
    host_bandwidth_down "100 Mbit"
  ]
  edge [
    source 0
    target 0
    latency "10 ms"
    packet_loss 0.0
  ]
]
`

// dayWriter makes the directory of a day.
type dayWriter struct {
	*Day
	dir         string
	authorities []netdir.Authority
	plan        dayPlan
	config      dayConfig
	luck        *mathrand.Rand
}

// Write makes dir, which must not be there: shadow.yaml, and a template with keys and configurations.
func (d *Day) Write(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fault.Wrap(fault.Local, err)
	}
	w := &dayWriter{Day: d, dir: dir, luck: mathrand.New(mathrand.NewPCG(d.Seed, 1))}
	w.config.Hosts = map[string]*dayHost{}
	if w.relayKey == nil {
		w.relayKey = func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 1024) } // tor-spec 1.1
	}
	if w.authorityKeys == nil {
		w.authorityKeys = func(dir, address string) (*authority.Keys, error) { return authority.MakeKeys(dir, address, 12, nil) }
	}
	end := d.Before + d.Time
	w.config.General.StopTime = fmt.Sprintf("%d s", int((end + 5*time.Second).Seconds()))
	w.config.General.Seed = d.Seed & (1<<32 - 1)
	w.config.General.Template, w.config.General.LogLevel, w.config.General.Progress = "template", "warning", true
	w.config.Network.Graph.Type, w.config.Network.Graph.Inline = "gml", dayGraph
	w.plan = dayPlan{Addr: netip.MustParseAddr("11.10.0.1"), End: end, Server: netip.MustParseAddrPort(fmt.Sprintf("11.11.0.1:%d", dayWebPort))}
	for _, step := range []func() error{w.makeRelays, w.makeAuthorities, w.makeClients} {
		if err := step(); err != nil {
			return err
		}
	}
	w.host("server", w.plan.Server.Addr(), w.lab(time.Second, "shadow", "node", "target", "--web", w.plan.Server.String()))
	recorder := w.lab(2*time.Second, "appearance", "day", "relays", filepath.Join("..", "..", dayPlanName))
	recorder.End = map[string]int{"exited": 0}
	w.host("relays", w.plan.Addr, recorder)
	n := &netdir.Network{Name: "day", Authorities: w.authorities, Testing: netdir.Testing{AllowPrivateAddresses: true}}
	network, err := netfile.Format(n)
	if err != nil {
		return err
	}
	plan, err := json.MarshalIndent(w.plan, "", " ")
	if err != nil {
		return fault.Wrap(fault.Local, err)
	}
	var conf bytes.Buffer
	if err := yaml.NewEncoder(&conf).Encode(w.config); err != nil {
		return fault.Wrap(fault.Local, err)
	}
	files := map[string][]byte{"template/" + dayNetwork: network, "template/" + dayPlanName: plan, "template/empty": nil,
		"template/resolv.conf": []byte("nameserver 127.0.0.1\n"), "shadow.yaml": conf.Bytes()}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return fault.Wrap(fault.Local, err)
		}
	}
	return nil
}

func (w *dayWriter) host(name string, addr netip.Addr, ps ...shadowfile.Process) {
	w.config.Hosts[name] = &dayHost{0, addr.String(), ps}
}

func (w *dayWriter) lab(start time.Duration, args ...string) shadowfile.Process {
	return shadowfile.Process{Path: w.Lab, Args: args, Start: millis(start), End: "running"}
}

func millis(d time.Duration) string { return fmt.Sprintf("%d ms", d.Milliseconds()) }

// program is a process that reads a torrc.
func (w *dayWriter) program(start time.Duration, command ...string) shadowfile.Process {
	return shadowfile.Process{Path: command[0], Args: append(slices.Clone(command[1:]), "--defaults-torrc", "../../empty", "-f", "torrc"),
		Start: millis(start), End: "running"}
}

// hostDir makes a host's directory.
func (w *dayWriter) hostDir(name string) (string, error) {
	dir := filepath.Join(w.dir, "template", "hosts", name)
	return dir, fault.Wrap(fault.Local, os.MkdirAll(dir, 0o700))
}

func (w *dayWriter) torrc(name string, lines []string) error {
	dir, err := w.hostDir(name)
	if err != nil {
		return err
	}
	for _, a := range w.authorities {
		lines = append(lines, fmt.Sprintf("DirAuthority %s orport=%d no-v2 v3ident=%s %s %s", a.Nickname, dayORPort, a.V3Ident, a.DirPort, a.RSA))
	}
	return fault.Wrap(fault.Local, os.WriteFile(filepath.Join(dir, "torrc"), []byte(strings.Join(lines, "\n")+"\n"), 0o600))
}

// makeRelays makes the relays' identities: the authorities are told which may be guards. A relay more comes each
// hour, so that each consensus has something new.
func (w *dayWriter) makeRelays() error {
	dir, err := w.hostDir("relays")
	if err != nil {
		return err
	}
	late := int(w.plan.End / dayChurn)
	for i := range dayRelays + dayExits + late {
		r := dayRelay{Name: seenName(i), Exit: i >= dayRelays && i < dayRelays+dayExits}
		if n := i - dayRelays - dayExits; n >= 0 {
			r.Start = time.Duration(n)*dayChurn + dayChurn/2
		}
		k, err := w.relayKey()
		if err != nil {
			return fault.Wrap(fault.Local, err)
		}
		r.rsa = netdoc.RSADigest(&k.PublicKey)
		keys := filepath.Join(dir, r.Name, "keys")
		if err := os.MkdirAll(keys, 0o700); err != nil {
			return fault.Wrap(fault.Local, err)
		}
		text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(k)})
		if err := os.WriteFile(filepath.Join(keys, "secret_id_key"), text, 0o600); err != nil {
			return fault.Wrap(fault.Local, err)
		}
		w.plan.Relays = append(w.plan.Relays, r)
	}
	return nil
}

// makeAuthorities makes C tor's authorities, which nobody chooses as relays.
func (w *dayWriter) makeAuthorities() error {
	var guests []string
	weights := fmt.Sprintf("%d\nversion=1.0.0\nsoftware=chivelab\n=====\n", dayStart.Unix())
	for i, r := range w.plan.Relays {
		if i < dayRelays+dayExits {
			guests = append(guests, "$"+r.rsa.String())
		}
		weights += fmt.Sprintf("node_id=$%s bw=%d nick=%s\n", r.rsa, 10_000, r.Name)
	}
	for i := range 3 {
		a := netdir.Authority{Nickname: fmt.Sprintf("authority%d", i)}
		addr := netip.AddrFrom4([4]byte{11, byte(1 + i), 0, 1})
		a.ORPorts, a.DirPort = []netip.AddrPort{netip.AddrPortFrom(addr, dayORPort)}, netip.AddrPortFrom(addr, dayDirPort)
		dir, err := w.hostDir(a.Nickname)
		if err != nil {
			return err
		}
		keys := filepath.Join(dir, "state", "keys")
		if err := os.MkdirAll(keys, 0o700); err != nil {
			return fault.Wrap(fault.Local, err)
		}
		k, err := w.authorityKeys(keys, a.DirPort.String())
		if err != nil {
			return err
		}
		if a.V3Ident, err = ident.ParseRSAID(k.V3Ident); err != nil {
			return err
		}
		if a.RSA, err = ident.ParseRSAID(k.RSA); err != nil {
			return err
		}
		if a.Ed, err = ident.ParseEd25519ID(k.Ed25519); err != nil {
			return err
		}
		weights += fmt.Sprintf("node_id=$%s bw=1 nick=%s\n", a.RSA, a.Nickname)
		w.authorities = append(w.authorities, a)
	}
	set := strings.Join(guests, ",")
	for i := range w.authorities {
		a := &w.authorities[i]
		lines := []string{
			"TestingTorNetwork 1", "DataDirectory state", "Nickname " + a.Nickname, "Log notice stdout", "SafeLogging 0", "GeoIPFile /dev/null", "GeoIPv6File /dev/null",
			"SocksPort 0", "Address " + a.DirPort.Addr().String(), fmt.Sprintf("ORPort %v IPv4Only", a.ORPorts[0]), fmt.Sprintf("DirPort %v IPv4Only", a.DirPort),
			"AssumeReachable 1", "ContactInfo simulated", "__DisablePredictedCircuits 1", "UseEntryGuards 0", "ServerDNSDetectHijacking 0", "ServerDNSTestAddresses",
			"ServerDNSAllowBrokenConfig 1", "ServerDNSResolvConfFile ../../resolv.conf", "ExitRelay 0", "ExitPolicy reject *:*",
			"AuthoritativeDirectory 1", "V3AuthoritativeDirectory 1",
			"TestingV3AuthInitialVotingInterval 300", "TestingV3AuthInitialVoteDelay 20", "TestingV3AuthInitialDistDelay 20",
			"V3AuthVotingInterval 3600", "V3AuthVoteDelay 300", "V3AuthDistDelay 300", "V3AuthNIntervalsValid 3",
			"TestingAuthDirTimeToLearnReachability 0", "TestingMinExitFlagThreshold 0", "TestingMinFastFlagThreshold 0",
			"TestingDirAuthVoteGuard " + set, "TestingDirAuthVoteGuardIsStrict 1", "TestingDirAuthVoteHSDir " + set, "TestingDirAuthVoteHSDirIsStrict 1",
			"AuthDirVoteStableGuaranteeMinUptime 0", "AuthDirFastGuarantee 1", "AuthDirMaxServersPerAddr 0", "MinUptimeHidServDirectoryV2 0",
			"AuthDirTestReachability 0", "V3BandwidthsFile ../../v3bw",
		}
		for name, value := range publicParams {
			lines = append(lines, fmt.Sprintf("ConsensusParams %s=%d", name, value))
		}
		if err := w.torrc(a.Nickname, lines); err != nil {
			return err
		}
		w.host(a.Nickname, a.DirPort.Addr(), w.program(time.Second, w.Tor))
	}
	return fault.Wrap(fault.Local, os.WriteFile(filepath.Join(w.dir, "template", "v3bw"), []byte(weights), 0o644))
}

// clientLines are those of all clients.
func (w *dayWriter) clientLines(tor bool) []string {
	lines := []string{"DataDirectory state", "SocksPort " + daySOCKS, "EnforceDistinctSubnets 0", "Log notice stdout"}
	if tor {
		lines = append(lines, "GeoIPFile /dev/null", "GeoIPv6File /dev/null", "SafeLogging 0")
	}
	for i, r := range w.plan.Relays[:dayRelays+dayExits] {
		lines = append(lines, fmt.Sprintf("FallbackDir %v:1 orport=%d id=%s", w.plan.Addr, dayORPort+i, r.rsa))
	}
	return lines
}

// times are when something is done by hand, in order: not in the first hour, and not at the end.
func (w *dayWriter) times() string {
	var at []time.Duration
	for range dayUses {
		at = append(at, w.Before+min(time.Hour, w.Time/4)+time.Duration(w.luck.Int64N(int64(w.Time*3/4-5*time.Minute))))
	}
	slices.Sort(at)
	var out []string
	for _, t := range at {
		out = append(out, t.Round(time.Second).String())
	}
	return strings.Join(out, ",")
}

// makeClients makes the clients under test, and for the services a visitor of C tor's.
func (w *dayWriter) makeClients() error {
	var visits []shadowfile.Process
	host := 0
	for n := range w.Clients {
		apart := time.Duration(w.luck.Int64N(int64(time.Minute))) // both programs' clients begin at the same time
		uses, visit := w.times(), w.times()
		for _, role := range dayRoles {
			for i := range w.Subjects {
				s := &w.Subjects[i]
				c := dayClient{Name: fmt.Sprintf("%s%d%d", role, i, n), Subject: s.Name, Role: role, Addr: netip.AddrFrom4([4]byte{12, byte(1 + host/200), byte(host % 200), 1})}
				host++
				lines := append(w.clientLines(!s.Chive), s.Torrc...)
				if role == dayService {
					lines = append(lines, "HiddenServiceDir service", fmt.Sprintf("HiddenServicePort 80 %v", w.plan.Server))
					visits = append(visits, w.lab(w.Before, "appearance", "day", "user", "--at", visit, "--service", filepath.Join("..", c.Name, "service")))
				}
				if err := w.torrc(c.Name, lines); err != nil {
					return err
				}
				ps := []shadowfile.Process{w.program(w.Before+apart, s.Command...)}
				if role == dayUser {
					ps = append(ps, w.lab(w.Before, "appearance", "day", "user", "--at", uses, "--target", w.plan.Server.String()))
				}
				w.host(c.Name, c.Addr, ps...)
				w.plan.Clients = append(w.plan.Clients, c)
			}
		}
	}
	if err := w.torrc("visitor", w.clientLines(true)); err != nil {
		return err
	}
	w.host("visitor", netip.MustParseAddr("11.12.0.1"), append([]shadowfile.Process{w.program(w.Before, w.Tor)}, visits...)...)
	return nil
}
