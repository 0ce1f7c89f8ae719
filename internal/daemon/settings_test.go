package daemon

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/fault"
)

// parse reads settings as a command does: flags, then a file.
func parse(t testing.TB, file string, args ...string) (*Settings, error) {
	t.Helper()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	s := NewProxySettings()
	s.AddFlags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return s, s.ReadFile("f", []byte(file))
}

func proxyOf(s *Settings) *proxyRole { return s.role.(*proxyRole) }

func TestPrecedence(t *testing.T) {
	s, err := parse(t, "")
	if r := proxyOf(s); err != nil || !slices.Equal(r.SOCKS, []string{DefaultSOCKS}) || r.Drain != 30*time.Second || s.Check() != nil {
		t.Fatalf("defaults: %+v %v", s, err)
	}
	const file = `
socks = ["9150", "unix:/run/s"]
http = "8118"
drain = "1m"
cgo = "off"
padding = "reduced"
strict-nodes = true
num-entry-guards = 2
exit-nodes = ["a", "b"]
log-level = "debug"
`
	s, err = parse(t, file, "--cgo", "on", "--exit-nodes", "c", "--drain", "2s", "--strict-nodes=false")
	if err != nil {
		t.Fatal(err)
	}
	r := proxyOf(s)
	c := r.Config
	if !slices.Equal(r.SOCKS, []string{"9150", "unix:/run/s"}) || !slices.Equal(r.HTTP, []string{"8118"}) ||
		c.Padding != chive.PaddingReduced || c.NumEntryGuards != 2 || r.LogLevel.String() != "DEBUG" {
		t.Errorf("the file does not win over defaults: %+v", s)
	}
	if c.CGO != chive.SwitchOn || !slices.Equal(c.ExitNodes, []string{"c"}) || r.Drain != 2*time.Second || c.StrictNodes {
		t.Errorf("flags do not win over the file: %+v", s)
	}
}

// TestFileIsBounded: a process reads no more of a file than it may have, also at
// SIGHUP, when the file can have become anything.
func TestFileIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 1<<28); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := NewProxySettings().Load(path)
	runtime.ReadMemStats(&after)
	if !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), "268435456 bytes") {
		t.Error(err)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<26 {
		t.Errorf("%d bytes were allocated", n)
	}
}

func TestFileRefusals(t *testing.T) {
	for file, want := range map[string]string{
		`sokcs = "9050"`:              `f:1: unknown key "sokcs"; did you mean "socks"?`,
		"\n" + `data_dir = "x"`:       `f:2: unknown key "data_dir"; did you mean "data-dir"?`,
		`config = "x"`:                `f:1: unknown key "config"`,
		`help = true`:                 `f:1: unknown key "help"`,
		"[socks]\nport = 1":           `f:1: socks: table, not a list of strings`,
		`socks = [9050]`:              `f:1: socks: entry 1: integer, not string`,
		`drain = 30`:                  `f:1: drain: 30 has no unit: write "30s" for seconds`,
		`strict-nodes = "true"`:       `f:1: strict-nodes: true: string, not boolean`,
		`cgo = "maybe"`:               `f:1: cgo: "maybe" is not auto, on or off`,
		`log-level = "loud"`:          `f:1: log-level: `,
		"socks = \"a\"\nsocks = \"b":  `f:2: `,
		"\nsocks = ['9050', 'x:1']":   `f:2: socks: entry 2: listening address "x:1" is not`,
		"\nnum-entry-guards = 21":     `f:2: num-entry-guards: 21 is not from 0 to 20`,
		`exit-nodes = ["a", "{deu}"]`: `f:1: exit-nodes: set of relays: "{deu}" is not a country`,
		`stream-timeout = "1h"`:       `f:1: stream-timeout: 1h0m0s is not from 1s to 5m0s`,
		`sandbox = "maybe"`:           `f:1: sandbox: "maybe" is not off, auto or require`,
		`bridge = ["not a bridge"]`:   `f:1: bridge: entry 1: bridge line`,
		`max-memory = 5`:              `f:1: max-memory: 5 is below 33554432, the least`,
	} {
		s, err := parse(t, file)
		if err == nil {
			err = s.Check()
		}
		if !fault.Is(err, fault.Config) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %q", file, err, want)
		}
	}
}

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "net.toml")
	os.WriteFile(bad, []byte("name = 'x'"), 0o600)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--socks", "localhost:9050"}, `--socks: listening address "localhost:9050" is not`},
		{[]string{"--dns", "53", "--http", "x"}, `--http: listening address "x" is not`},
		{[]string{"--metrics", "70000"}, `--metrics: listening address "70000" is not`},
		{[]string{"--max-connections", "0"}, `--max-connections: 0 is not from 1 to 1000000`},
		{[]string{"--drain=-1s"}, `--drain: -1s is below 0s`},
		{[]string{"--exit-nodes", "{deu}"}, `--exit-nodes: `},
		{[]string{"--socks", ""}, `no port is open: `},
		{[]string{"--network", bad}, bad + `: 0 authorities`},
		{[]string{"--network", dir + "/absent"}, `network file: `},
	} {
		s, err := parse(t, "", tt.args...)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Check(); !fault.Is(err, fault.Config) || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", tt.args, err, tt.want)
		}
	}
}

// TestOneFileForAll: a command without ports takes a proxy's file.
func TestOneFileForAll(t *testing.T) {
	fs := pflag.NewFlagSet("get", pflag.ContinueOnError)
	s := NewClientSettings()
	s.AddFlags(fs)
	if fs.Lookup("socks") != nil {
		t.Error("get has --socks, which would do nothing")
	}
	if err := s.ReadFile("f", []byte("socks = ''\ncgo = 'off'")); err != nil || proxyOf(s).Config.CGO != chive.SwitchOff || s.Check() != nil {
		t.Errorf("%v, %v", err, s.Check())
	}
	if err := s.ReadFile("f", []byte("sokcs = '9150'")); err == nil {
		t.Error("an unknown key passed")
	}
}

func TestClientConfig(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	s, err := parse(t, "")
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.ClientConfig(io.Discard)
	want, _ := chive.DefaultDataDir()
	if err != nil || c.Network.Name() != "public" || c.DataDir != want {
		t.Errorf("%+v %v", c, err)
	}
}

// TestSecretsOnTheCommandLine: a key that other users can see is warned of, and one in a
// file is not.
func TestSecretsOnTheCommandLine(t *testing.T) {
	for _, c := range []struct {
		flag, arg string
		want      bool
	}{
		{"--client-onion-auth", "aaaa:descriptor:x25519:BBBB", true}, {"--client-onion-auth", "@/some/file", false},
		{"--proxy", "socks5://alice:BBBB@192.0.2.1:1080", true}, {"--proxy", "socks5://192.0.2.1:1080", false}, {"--proxy", "@/some/file", false},
	} {
		s := NewProxySettings()
		fs := pflag.NewFlagSet("proxy", pflag.ContinueOnError)
		s.AddFlags(fs)
		if err := fs.Parse([]string{c.flag, c.arg}); err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		s.warn(slog.New(slog.NewTextHandler(&b, nil)))
		if got := strings.Contains(b.String(), "command line"); got != c.want || strings.Contains(b.String(), "BBBB") {
			t.Errorf("%s: %q", c.arg, b.String())
		}
	}
	s := NewProxySettings()
	if err := s.ReadFile("f", []byte("client-onion-auth = 'aaaa:descriptor:x25519:BBBB'")); err != nil || s.OnCommandLine("client-onion-auth") != nil {
		t.Errorf("a key in the file counts as one of the command line: %v", err)
	}
}

// notOptions are fields without a row.
var notOptions = map[string]string{
	"Network":    "the process reads it from its network file",
	"Logger":     "the process makes it, by log-level and log-format",
	"Transports": "they are code, which only a Go program can give",

	"Onion.Key":               "it is in the key's directory",
	"Onion.AuthorizedClients": "they are in files of the key's directory",
	"Onion.Targets":           "the option port has them",
	"Onion.MoreTargets":       "the option port has them",
	"Onion.Backends":          "a frontend has them",
	"Onion.DeferConnected":    "only for a Go program's connections",
}

// TestEveryField: every exported field has one row, and every row a field.
func TestEveryField(t *testing.T) {
	for _, s := range []*Settings{NewProxySettings(), NewRelaySettings(), NewAuthoritySettings()} {
		rows := map[string]map[string]int{} // type, field
		types := map[string]reflect.Type{}
		for _, p := range s.role.parts() {
			of := p.Of
			if p.Section != "" {
				of = p.Add()
			}
			typ := reflect.TypeOf(of).Elem()
			types[typ.String()] = typ
			if rows[typ.String()] == nil {
				rows[typ.String()] = map[string]int{}
			}
			for o := range p.Table.All {
				rows[typ.String()][o.Field]++
			}
		}
		for name, typ := range types {
			for _, f := range reflect.VisibleFields(typ) {
				want := 1
				if notOptions[f.Name] != "" || notOptions[typ.Name()+"."+f.Name] != "" {
					want = 0
				}
				if n := rows[name][f.Name]; f.IsExported() && !f.Anonymous && n != want {
					t.Errorf("%s.%s: %d rows, not %d", name, f.Name, n, want)
				}
			}
		}
		for _, v := range s.All() {
			if words, _ := pflag.UnquoteUsage(&pflag.Flag{Usage: v.Help, Value: v}); v.Help == "" || v.Type() != "bool" && strings.ToUpper(words) != words {
				t.Errorf("%s: its help does not name its value in back quotes: %q", v.Key, v.Help)
			}
		}
	}
}

func FuzzConfigFile(f *testing.F) {
	f.Add([]byte("socks = ['9050']\ncgo = 'on'\ndrain = '5s'\nnum-entry-guards = 3\n"))
	f.Fuzz(func(t *testing.T, doc []byte) {
		if err := NewProxySettings().ReadFile("f", doc); err != nil && !fault.Is(err, fault.Config) {
			t.Fatalf("kind of %v", err)
		}
	})
}
