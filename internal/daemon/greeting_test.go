package daemon

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chivenet/chive/relay"
)

// TestGreet: the first start says what this relay does, and no later one does.
func TestGreet(t *testing.T) {
	for name, c := range map[string]struct {
		cfg       relay.Config
		says, not string
	}{
		"a middle relay":                {relay.Config{ORPort: []string{"9001"}}, "lets no traffic out", "an exit"},
		"an exit by the reduced policy": {relay.Config{ORPort: []string{"9001"}, ReducedExitPolicy: true}, `an exit, by "the reduced policy"`, "lets no traffic out"},
		"a relay":                       {relay.Config{ORPort: []string{"9001"}}, "TCP to 9001 has to reach", "publishes nothing"},
		"a bridge":                      {relay.Config{ORPort: []string{"127.0.0.1:0"}, Bridge: true, ServerTransportListen: []string{"obfs4 0.0.0.0:443"}}, "TCP to obfs4 0.0.0.0:443 has to reach", "127.0.0.1:0"},
		"a bridge too":                  {relay.Config{ORPort: []string{"9001"}, Bridge: true}, "publishes nothing", "tests whether others"},
		"keys elsewhere":                {relay.Config{ORPort: []string{"9001"}, KeyDir: filepath.Join(t.TempDir(), "vault")}, "vault: they are the relay's identity", string(filepath.Separator) + "keys:"},
	} {
		c.cfg.DataDir = t.TempDir()
		var out, log bytes.Buffer
		greet(&out, "", &c.cfg, slog.New(slog.NewTextHandler(&log, nil)))
		if !strings.Contains(out.String(), c.says) || strings.Contains(out.String(), c.not) || log.Len() > 0 {
			t.Errorf("%s: %s%s", name, out.String(), log.String())
		}
		keys := c.cfg.KeyDir
		if keys == "" {
			keys = filepath.Join(c.cfg.DataDir, "keys")
		}
		if err := os.MkdirAll(keys, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(keys, "secret_id_key"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		out.Reset()
		greet(&out, "", &c.cfg, slog.New(slog.NewTextHandler(&log, nil)))
		if exit := strings.Contains(log.String(), "this relay is an exit"); out.Len() > 0 || exit != c.cfg.ReducedExitPolicy {
			t.Errorf("%s, again: %s%s", name, out.String(), log.String())
		}
	}
}
