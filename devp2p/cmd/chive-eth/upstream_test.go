package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestUpstreamFile: the upstream's URL may come from a file, so that a key in it stands in no list
// of processes; what is wrong with the file is said without what it says.
func TestUpstreamFile(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		with wallets
		want string // empty: it is fine
	}{
		"a URL":         {"https://node.example/secret\n", wallets{rpc: "127.0.0.1:0"}, ""},
		"proofs":        {"https://node.example/secret", wallets{rpc: "127.0.0.1:0", proofs: proofsRequire}, ""},
		"a socket":      {"/nowhere/geth.ipc\r\n", wallets{rpc: "127.0.0.1:0"}, ""},
		"empty":         {"\n", wallets{rpc: "127.0.0.1:0"}, "the file is empty"},
		"two lines":     {"https://node.example/secret\nhttps://other.example/secret\n", wallets{rpc: "127.0.0.1:0"}, "the file has more than one line"},
		"plain http":    {"http://node.example/secret\n", wallets{rpc: "127.0.0.1:0"}, "plain http"},
		"no URL":        {"secret\n", wallets{rpc: "127.0.0.1:0"}, "it is neither a URL"},
		"endless":       {"https://node.example/" + strings.Repeat("secret", maxUpstream), wallets{rpc: "127.0.0.1:0"}, ""},
		"both":          {"https://node.example/secret\n", wallets{rpc: "127.0.0.1:0", upstream: "https://node.example/"}, "--rpc-upstream is given, too"},
		"without --rpc": {"https://node.example/secret\n", wallets{}, "is about --rpc"},
	} {
		path := filepath.Join(t.TempDir(), "upstream")
		if err := os.WriteFile(path, []byte(c.file), 0o600); err != nil {
			t.Fatal(err)
		}
		c.with.upstreamFile = path
		err := c.with.check()
		fails := c.want != "" || name == "endless"
		switch {
		case fails && (err == nil || !strings.HasPrefix(err.Error(), "--rpc-upstream-file") || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v", name, err)
		case !fails && (err != nil || c.with.address == nil):
			t.Errorf("%s: %v, %v", name, c.with.address, err)
		case err != nil && strings.Contains(err.Error(), "secret"):
			t.Errorf("%s: the error tells the key: %v", name, err)
		}
	}
	missing := wallets{rpc: "127.0.0.1:0", upstreamFile: filepath.Join(t.TempDir(), "missing")}
	if err := missing.check(); err == nil || !strings.HasPrefix(err.Error(), "--rpc-upstream-file: ") {
		t.Errorf("a missing file: %v", err)
	}
}
