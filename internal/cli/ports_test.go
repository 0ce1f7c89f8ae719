package cli

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/chivenet/chive/internal/command/commandtest"
)

// TestPortsThatFail starts each process with each of its ports, and its log, where they cannot be
// opened, and reads what it says.
func TestPortsThatFail(t *testing.T) {
	dir := t.TempDir()
	network, authority := filepath.Join(dir, "net.toml"), filepath.Join(dir, "authority")
	keys, err := commandtest.Run(t, Chive("keys"), "keys", "certify", filepath.Join(authority, "keys"))
	if err != nil {
		t.Fatal(err)
	}
	plain := filepath.Join(dir, "plain-file")
	for path, text := range map[string]string{network: fmt.Sprintf(oneAuthority, keys), plain: ""} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	used, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer used.Close()
	absent := filepath.Join(dir, "absent", "below")
	addresses := []string{used.Addr().String(), "192.0.2.1:9", "unix:" + absent, "unix:" + plain}
	elsewhere := []string{"address", "nameserver"} // where others are
	seen := map[string]int{}
	for name, with := range map[string][]string{
		"proxy":     {"--socks", "127.0.0.1:0"},
		"relay":     {"--orport", "127.0.0.1:0", "--nickname", "mine"},
		"authority": {"--orport", "127.0.0.1:0", "--dirport", "127.0.0.1:0", "--nickname", "mine", "--data-dir", authority},
		"fte":       {"--client-port", "0"},
	} {
		c, _, err := Chive(name).Find([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		for flag, values := range failing(c, addresses, []string{dir, absent}) {
			for _, value := range values {
				if contains(elsewhere, flag) || name == "fte" && flag == "decoy" {
					continue
				}
				args := []string{name}
				if name != "fte" {
					args = append(args, "--network", network)
				}
				if name != "fte" && name != "authority" {
					args = append(args, "--data-dir", filepath.Join(t.TempDir(), "data"))
				}
				for i := 0; i < len(with); i += 2 {
					if with[i] != "--"+flag {
						args = append(args, with[i], with[i+1])
					}
				}
				message := lastLine(t, append(args, "--"+flag, value)...)
				seen[name]++
				path := strings.TrimPrefix(value, "unix:")
				for _, w := range commandtest.Rough(message, flag, path) {
					t.Errorf("chive %s --%s %s: %s: %s", name, flag, value, message, w)
				}
				if !strings.Contains(message, flag) || !strings.Contains(message, path) {
					t.Errorf("chive %s --%s %s: %s: it does not name both", name, flag, value, message)
				}
			}
		}
	}
	if seen["proxy"] < 15 || seen["relay"] < 10 || seen["authority"] < 10 || seen["fte"] < 4 {
		t.Errorf("only %v were tried", seen)
	}
	if m := lastLine(t, "fte", "--client-port", used.Addr().String()[len("127.0.0.1:"):]); len(commandtest.Rough(m, "", used.Addr().String())) > 0 {
		t.Errorf("chive fte at a used port: %s", m)
	}
}

func contains(all []string, one string) bool { return strings.Contains(strings.Join(all, " "), one) }

// failing returns the flags of a command that open ports or the log, with the values for them.
func failing(c *cobra.Command, addresses, files []string) map[string][]string {
	out := map[string][]string{}
	commandtest.Flags(c, func(f *pflag.Flag, value string) {
		switch {
		case value == "ADDR", value == "IP:PORT", value == "HOST:PORT":
			out[f.Name] = addresses
		case f.Name == "log-file":
			out[f.Name] = files
		}
	})
	return out
}

// lastLine runs chive, which must fail by itself, and returns what it said last.
func lastLine(t *testing.T, args ...string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, self)
	cmd.Args = append([]string{"chive"}, args...) // TestMain runs it
	out, err := cmd.CombinedOutput()
	if err == nil || ctx.Err() != nil {
		t.Fatalf("chive %q did not fail: %v: %s", args, err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	message, ok := strings.CutPrefix(lines[len(lines)-1], "chive: ")
	if !ok {
		t.Fatalf("chive %q: %s", args, out)
	}
	return message
}
