package daemon

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/fault"
)

// The option decides what happens on a kernel that cannot confine.
func TestConfineByMode(t *testing.T) {
	for _, c := range []struct {
		mode     string
		abi      int
		restrict error
		calls    int
		err      string // empty: none
		log      string
	}{
		{sandboxOff, 7, nil, 0, "", ""},
		{sandboxAuto, 7, nil, 1, "", "level=INFO msg=confined"},
		{sandboxAuto, 1, nil, 1, "", "level=INFO msg=confined"},
		{sandboxAuto, 0, nil, 0, "", "level=WARN msg=\"not confined\" err=\"sandbox: this kernel has no Landlock"},
		{sandboxAuto, 7, errors.New("no"), 1, "", "level=WARN msg=\"not confined\" err=no"},
		{sandboxRequire, 7, nil, 1, "", "level=INFO msg=confined"},
		{sandboxRequire, 0, nil, 0, "this kernel has no Landlock", ""},
		{sandboxRequire, 2, nil, 0, "has version 2", ""},
		{sandboxRequire, 7, fault.New(fault.Local, "no"), 1, "no", ""},
	} {
		var log bytes.Buffer
		calls := 0
		err := confinement{}.confineBy(c.mode, slog.New(slog.NewTextHandler(&log, nil)), c.abi, func() error { calls++; return c.restrict })
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) || calls != c.calls {
			t.Errorf("%s, version %d: %v, %d calls", c.mode, c.abi, err, calls)
		}
		text := strings.Replace(log.String(), "\"confined: files elsewhere are out of reach\"", "confined", 1)
		if (c.log == "") != (text == "") || !strings.Contains(text, c.log) {
			t.Errorf("%s, version %d: logged %s", c.mode, c.abi, text)
		}
	}
}

func TestConfinementOf(t *testing.T) {
	c := confinementOf("/data", []string{"obfs4 exec /opt/obfs4proxy"}).reading("/etc/chive/relay.toml", "", "/srv/net.toml")
	for _, want := range []string{"/etc/chive", "/srv", "/etc/resolv.conf", "/opt/obfs4proxy", "/usr"} {
		if !slices.Contains(c.read, want) {
			t.Errorf("no %s in %q", want, c.read)
		}
	}
	if !slices.Equal(c.write, []string{"/data"}) || slices.Contains(c.read, ".") {
		t.Errorf("%+v", c)
	}
	if c = confinementOf("/data", nil); slices.Contains(c.read, "/usr") {
		t.Error("programs may be run without need")
	}
}

// TestClientFiles: a reload can read the files with countries, with the URL of a proxy and
// with keys for onion services, and a URL or a key is no file.
func TestClientFiles(t *testing.T) {
	cfg := chive.Config{GeoIPFile: "/srv/geo/four", Proxy: "@/srv/secret/url", ClientOnionAuth: []string{"@/srv/keys/one"}, ClientOnionAuthDir: "/srv/auth"}
	r := &proxyRole{Config: cfg}
	for _, of := range []role{r, &onionRole{Config: cfg, args: new([]string)}} {
		for _, want := range []string{"/usr/share/tor", "/srv/geo", "/srv/secret", "/srv/keys", "/srv/auth"} {
			if c := of.confinement("/data"); !slices.Contains(c.read, want) {
				t.Errorf("%T: no %s in %q", of, want, c.read)
			}
		}
	}
	r.Config.ClientOnionAuth = []string{"address:descriptor:x25519:opensesame"}
	r.Config.Proxy = "socks5://alice:opensesame@192.0.2.1:1080"
	if c := r.confinement("/data"); strings.Contains(strings.Join(c.read, " "), "opensesame") {
		t.Errorf("a secret became a file: %q", c.read)
	}
}

// TestConfinementOfLog: the directory of the log's file stays writable, because SIGHUP makes a
// new file there.
func TestConfinementOfLog(t *testing.T) {
	c := confinement{write: []string{"/data"}}
	if got := c.logging("/var/log/chive/log").write; !slices.Equal(got, []string{"/data", "/var/log/chive"}) {
		t.Errorf("%q", got)
	}
	if got := c.logging("").write; !slices.Equal(got, c.write) {
		t.Errorf("without a file: %q", got)
	}
}

// TestConfinedKeys: a confined relay may write its keys where they are.
func TestConfinedKeys(t *testing.T) {
	r := relayRole{}
	r.Config.KeyDir = "/vault"
	if c := r.confinement("/data"); !slices.Equal(c.write, []string{"/data", "/vault"}) {
		t.Errorf("%q", c.write)
	}
}
