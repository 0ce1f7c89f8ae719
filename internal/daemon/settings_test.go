package daemon

import (
	"os"
	"path/filepath"
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
	fs.String("config", "", "")
	s := NewSettings(fs, true)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return s, s.apply("f", []byte(file))
}

func TestPrecedence(t *testing.T) {
	s, err := parse(t, "")
	if err != nil || !slices.Equal(s.SOCKS, []string{DefaultSOCKS}) || s.Drain != 30*time.Second || s.Check() != nil {
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
	c := s.Client
	if !slices.Equal(s.SOCKS, []string{"9150", "unix:/run/s"}) || !slices.Equal(s.HTTP, []string{"8118"}) ||
		c.Padding != chive.PaddingReduced || c.NumEntryGuards != 2 || s.LogLevel.String() != "DEBUG" {
		t.Errorf("the file does not win over defaults: %+v", s)
	}
	if c.CGO != chive.SwitchOn || !slices.Equal(c.ExitNodes, []string{"c"}) || s.Drain != 2*time.Second || c.StrictNodes {
		t.Errorf("flags do not win over the file: %+v", s)
	}
}

func TestFileRefusals(t *testing.T) {
	for file, want := range map[string]string{
		`sokcs = "9050"`:             `f: unknown key "sokcs"; did you mean "socks"?`,
		`data_dir = "x"`:             `f: unknown key "data_dir"; did you mean "data-dir"?`,
		`config = "x"`:               `f: unknown key "config"`,
		`help = true`:                `f: unknown key "help"`,
		"[socks]\nport = 1":          `f: unknown key "socks.port"`,
		`socks = [9050]`:             `f: socks: entry 1: integer, not string`,
		`socks = 9050`:               `f: socks: integer, not a list of strings`,
		`drain = 30`:                 `f: drain: 30: integer, not string`,
		`drain = "soon"`:             `f: drain: time: invalid duration "soon"`,
		`strict-nodes = "true"`:      `f: strict-nodes: true: string, not boolean`,
		`num-entry-guards = "2"`:     `f: num-entry-guards: 2: string, not integer`,
		`cgo = "maybe"`:              `f: cgo: "maybe" is none of`,
		`log-level = "loud"`:         `f: log-level: `,
		`data-dir = 1979-05-27`:      `f: data-dir: 1979-05-27`,
		"socks = \"a\"\nsocks = \"b": `f: line 2: `,
	} {
		_, err := parse(t, file)
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
		{[]string{"--socks", "localhost:9050"}, `socks: listening address "localhost:9050" is not`},
		{[]string{"--dns", "53", "--http", "x"}, `http: listening address "x" is not`},
		{[]string{"--metrics", "70000"}, `metrics: listening address "70000" is not`},
		{[]string{"--log-format", "xml"}, `log-format: "xml" is neither`},
		{[]string{"--max-connections", "0"}, `max-connections: 0 is not`},
		{[]string{"--drain=-1s"}, `drain: -1s is negative`},
		{[]string{"--exit-nodes", "{de}"}, `ExitNodes: `},
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

// TestOneFileForAll: a command without doors takes a proxy's file.
func TestOneFileForAll(t *testing.T) {
	fs := pflag.NewFlagSet("get", pflag.ContinueOnError)
	s := NewSettings(fs, false)
	if fs.Lookup("socks") != nil {
		t.Error("get has --socks, which would do nothing")
	}
	if err := s.apply("f", []byte("socks = '9150'\ncgo = 'off'")); err != nil || s.Client.CGO != chive.SwitchOff {
		t.Errorf("%v", err)
	}
	if err := s.apply("f", []byte("sokcs = '9150'")); err == nil {
		t.Error("an unknown key passed")
	}
}

func TestClientConfig(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	s, err := parse(t, "")
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.ClientConfig(nil)
	want, _ := chive.DefaultDataDir()
	if err != nil || c.Network.Name() != "public" || c.DataDir != want {
		t.Errorf("%+v %v", c, err)
	}
}

func FuzzConfigFile(f *testing.F) {
	f.Add([]byte("socks = ['9050']\ncgo = 'on'\ndrain = '5s'\nnum-entry-guards = 3\n"))
	f.Fuzz(func(t *testing.T, doc []byte) {
		fs := pflag.NewFlagSet("fuzz", pflag.ContinueOnError)
		s := NewSettings(fs, true)
		if err := s.apply("f", doc); err != nil && !fault.Is(err, fault.Config) {
			t.Fatalf("kind of %v", err)
		}
	})
}
