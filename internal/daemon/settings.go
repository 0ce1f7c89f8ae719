// Package daemon runs a client, a relay or an authority as a process: its
// settings, ports, status socket and metrics, and its start, reload and shutdown.
package daemon

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/logline"
	"github.com/chivenet/chive/internal/options"
	"github.com/chivenet/chive/internal/tomlfile"
	"github.com/chivenet/chive/internal/torrc"
)

// Settings are the options of a process, from flags and from a file.
type Settings struct {
	*options.Set
	role role
	make func() role
	doc  []byte // the file as it was at the start, or at the last good reload
}

func newSettings(make func() role) *Settings {
	r := make()
	return &Settings{Set: options.Bind(r.parts()...), role: r, make: make}
}

// NewProxySettings returns the default settings of a client with its ports.
func NewProxySettings() *Settings { return newSettings(func() role { return &proxyRole{ports: true} }) }

// NewClientSettings returns the default settings of a client without ports. A
// file may nevertheless have a proxy's options, so that one file serves every
// command.
func NewClientSettings() *Settings { return newSettings(func() role { return new(proxyRole) }) }

// NewRelaySettings returns the default settings of a relay.
func NewRelaySettings() *Settings { return newSettings(func() role { return new(relayRole) }) }

// NewAuthoritySettings returns the default settings of an authority.
func NewAuthoritySettings() *Settings { return newSettings(func() role { return new(authorityRole) }) }

// AddFlags adds the options that have flags to fs.
func (s *Settings) AddFlags(fs *pflag.FlagSet) {
	fs.SortFlags = false
	for _, v := range s.All() {
		if v.FileOnly {
			continue
		}
		f := fs.VarPF(v, v.Key, "", v.Usage())
		if v.Type() == "bool" {
			f.NoOptDefVal = "true"
		}
	}
}

// Load reads a configuration file.
func (s *Settings) Load(path string) error {
	doc, err := atomicfile.Read(path, tomlfile.MaxSize)
	if err != nil {
		return fault.New(fault.Config, "configuration file: %w", err)
	}
	if torrc.Is(doc) {
		return fault.New(fault.Config, "%s is a configuration of C tor: \"chive config import %s\" makes one of Chive's", path, path)
	}
	s.doc = doc
	return s.ReadFile(path, doc)
}

// Reread returns new settings from the same flags and the present contents of the
// file. A pipe can be read only once: instead of it counts what was last in use.
func (s *Settings) Reread() (*Settings, error) {
	next := newSettings(s.make)
	next.Again(s.Set)
	if s.File() == "" {
		return next, nil
	}
	doc, err := atomicfile.ReadRegular(s.File(), tomlfile.MaxSize)
	if errors.Is(err, atomicfile.ErrNotRegular) {
		doc, err = s.doc, nil
	}
	if err != nil {
		return nil, fault.New(fault.Config, "configuration file: %w", err)
	}
	next.doc = doc
	return next, next.ReadFile(s.File(), doc)
}

// Check reports the first setting that cannot be used. It reads the files that settings
// name, and opens nothing else.
func (s *Settings) Check() error {
	for _, p := range s.role.parts() {
		if p.Section != "" {
			continue // the role checks its tables
		}
		if err := p.Table.Check(p.Of); err != nil {
			return s.Explain(err)
		}
	}
	return s.Explain(s.role.check())
}

// ClientConfig returns a client's configuration, with a logger that writes to w.
func (s *Settings) ClientConfig(w io.Writer) (chive.Config, error) {
	r, ok := s.role.(*proxyRole)
	if !ok {
		return chive.Config{}, errors.New("these are no client's settings")
	}
	w, _, err := openLog(r.LogFile, w) // the file is open as long as the process is
	if err != nil {
		return chive.Config{}, s.Explain(options.Wrong("LogFile", "%w", err))
	}
	log := logline.New(r.LogLevel, r.LogFormat, w)
	s.warn(log)
	return r.config(log)
}

// Quieter has the log begin at WARN, unless the command line or the file says where it begins: its
// lines would stand between those of another program.
func (s *Settings) Quieter() {
	if _, ok := s.Given(logTable)["log-level"]; !ok {
		s.role.common().LogLevel = slog.LevelWarn
	}
}

// warn warns at the start of what is better changed.
func (s *Settings) warn(log *slog.Logger) { s.warnAt(log, time.Now()) }

func (s *Settings) warnAt(log *slog.Logger, now time.Time) {
	s.role.common().warnOld(log, now)
	s.warnSecrets(log)
}

// warnSecrets warns of secrets that other users of the machine can see.
func (s *Settings) warnSecrets(log *slog.Logger) {
	for _, url := range s.OnCommandLine("proxy") {
		if strings.Contains(url, "@") && !strings.HasPrefix(url, "@") {
			log.Warn("other users of this machine can see the proxy's password on the command line: give --proxy @FILE, or write it in the configuration file")
		}
	}
	for _, line := range s.OnCommandLine("client-onion-auth") {
		if !strings.HasPrefix(line, "@") {
			log.Warn("other users of this machine can see the secret key on the command line: give --client-onion-auth @FILE, or use --client-onion-auth-dir")
			return
		}
	}
}

// role is a kind of node: its options, and how to open it.
type role interface {
	// parts returns the tables of options with their structures.
	parts() []options.Part
	common() *Common
	// check reports options that contradict each other, which the tables cannot
	// check.
	check() error
	// maxMemory returns the bound on memory that others can make the node hold,
	// in bytes; 0: the default.
	maxMemory() uint64
	// confinement returns the files that the node uses.
	confinement(dataDir string) confinement
	// open starts the node. First it writes to w what the user must know.
	open(w io.Writer, log *slog.Logger) (node, error)
}

// Common has the settings of every process besides its node's Config.
type Common struct {
	NetworkFile  string     // empty: the public network
	Metrics      string     // empty: none
	MetricsHosts []string   // host names that requests for metrics may have
	Profiles     string     // empty: none
	Sandbox      string     // "off", "auto" or "require"
	LogLevel     slog.Level `reload:"live"`
	LogFile      string     // empty: standard error
	LogFormat    string     // one of logline.Formats

	given *chive.Network // counts before NetworkFile; nil: none
}

func (c *Common) common() *Common { return c }

// network loads the network file.
func (c *Common) network() (*chive.Network, error) {
	if c.given != nil {
		return c.given, nil
	}
	if c.NetworkFile == "" {
		return chive.PublicNetwork(), nil
	}
	if st, err := os.Stat(c.NetworkFile); err == nil && st.Mode()&(os.ModeNamedPipe|os.ModeSocket|os.ModeCharDevice) != 0 {
		// It would be read more than once.
		return nil, options.Wrong("NetworkFile", "%s: %w", c.NetworkFile, atomicfile.ErrNotRegular)
	}
	return chive.LoadNetwork(c.NetworkFile)
}
