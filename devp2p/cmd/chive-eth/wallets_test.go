package main

import (
	"context"
	"io"
	"strings"
	"testing"
)

// TestWalletFlags: what is wrong with the flags about wallets, and which one it is.
func TestWalletFlags(t *testing.T) {
	const onion = "http://2gzyxa5ihm7nsggfxnu52rck2vv4rvmdlkiu3zzui5du4xyclen53wid.onion/"
	for name, c := range map[string]struct {
		wallets
		want string // empty: it is fine
	}{
		"nothing":                {wallets{}, ""},
		"an upstream":            {wallets{rpc: "127.0.0.1:0", upstream: "https://node.example/key"}, ""},
		"an onion":               {wallets{rpc: "127.0.0.1:0", upstream: onion, proofs: proofsRequire}, ""},
		"a socket":               {wallets{rpc: "127.0.0.1:0", upstream: "/nowhere/geth.ipc"}, ""},
		"an extension":           {wallets{rpc: "127.0.0.1:0", origins: []string{"chrome-extension://abc"}}, ""},
		"an upstream for nobody": {wallets{upstream: onion}, "--rpc-upstream is about --rpc"},
		"proofs for nobody":      {wallets{proofs: proofsAuto}, "--rpc-proofs is about --rpc"},
		"an origin for nobody":   {wallets{origins: []string{"chrome-extension://abc"}}, "--rpc-origin is about --rpc"},
		"proofs of nobody":       {wallets{rpc: "127.0.0.1:0", proofs: proofsRequire}, "--rpc-proofs require is about --rpc-upstream"},
		"a page":                 {wallets{rpc: "127.0.0.1:0", origins: []string{"chrome-extension://abc", "https://page.example"}}, "--rpc-origin: "},
		"plain http":             {wallets{rpc: "127.0.0.1:0", upstream: "http://node.example/key"}, "--rpc-upstream: plain http"},
		"plain http here":        {wallets{rpc: "127.0.0.1:0", upstream: "http://127.0.0.1:8545"}, "--rpc-upstream: plain http"},
	} {
		err := c.check()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), "key") {
			t.Errorf("%s: the error tells the key: %v", name, err)
		}
		if (c.address != nil) != (c.upstream != "" && c.want == "") && c.rpc != "" && c.proofs != proofsRequire {
			t.Errorf("%s: %v", name, c.address)
		}
	}
}

// TestUpstreamWithoutTor: no upstream is asked around Tor. A node on this machine needs none.
func TestUpstreamWithoutTor(t *testing.T) {
	for upstream, want := range map[string]string{"https://node.example/": "--rpc-upstream: a node elsewhere is asked through Tor", "/nowhere/geth.ipc": ""} {
		s := &relaySettings{dataDir: t.TempDir(), onionPort: 30303, maxPeers: 50, poolBytes: 1 << 20}
		s.policy, s.rpc, s.upstream = "clearnet", "127.0.0.1:0", upstream
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // it ends if it begins
		err := s.run(ctx, io.Discard, io.Discard)
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", upstream, err)
		}
	}
}
