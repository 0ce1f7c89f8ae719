package sidecar

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/p2p/enode"

	"github.com/chivenet/chive/devp2p/internal/nodetest"
	"github.com/chivenet/chive/program/programtest"
)

func TestParseEndpoint(t *testing.T) {
	for _, c := range []struct {
		ipc, url, want string // empty: it is refused
	}{
		{"/x/geth.ipc", "", "its IPC socket"}, {"", "http://127.0.0.1:8545", "its JSON-RPC"}, {"", "http://[::1]:8545/", "its JSON-RPC"},
		{"", "", ""}, {"/x", "http://127.0.0.1:8545", ""}, {"", "http://localhost:8545", ""}, {"", "http://192.0.2.1:8545", ""},
		{"", "https://127.0.0.1:8545", ""}, {"", "127.0.0.1:8545", ""}, {"", "http://127.0.0.1", ""}, {"", "http://127.0.0.1:0", ""}, {"", "http://u:p@127.0.0.1:8545", ""},
	} {
		e, err := parseEndpoint(c.ipc, c.url)
		if (err == nil) != (c.want != "") || err == nil && e.String() != c.want {
			t.Errorf("%+v: %v, %v", c, e, err)
		}
	}
}

// TestPeerForms: clients name their peers in different ways.
func TestPeerForms(t *testing.T) {
	key := nodetest.Key(t)
	id := enode.PubkeyToIDV4(&key.PublicKey)
	public := hex.EncodeToString(crypto.FromECDSAPub(&key.PublicKey)[1:])
	for name, text := range map[string]string{
		"geth":       fmt.Sprintf(`{"id":"%x","enode":"enode://%s@127.0.0.1:4","caps":["eth/69"],"network":{"remoteAddress":"127.0.0.1:4","trusted":false}}`, id[:], public),
		"an ID":      fmt.Sprintf(`{"id":"%x"}`, id[:]),
		"a key":      fmt.Sprintf(`{"id":"%s","name":null,"caps":[],"protocols":{"eth":{"version":null}}}`, public),
		"a key, 0x":  fmt.Sprintf(`{"version":"0x5","id":"0x%s","port":"0x0","protocols":{}}`, public),
		"a URL only": fmt.Sprintf(`{"enode":"enode://%s@127.0.0.1:4"}`, public),
	} {
		var p peerInfo
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got, ok := p.node(); !ok || got != id {
			t.Errorf("%s: %v, %v", name, got, ok)
		}
	}
	for _, bad := range []string{"", "0x", "zz", public[2:], strings.Repeat("00", 64)} {
		if id, ok := (&peerInfo{ID: bad}).node(); ok {
			t.Errorf("%q is %v", bad, id)
		}
	}
}

// TestAdminOverHTTP asks as a client without an IPC socket is asked: EthereumJS's own words, and wrong ones.
func TestAdminOverHTTP(t *testing.T) {
	programtest.NoLeaks(t)
	const key = "6f47cc380f7321b7d3b7af550ea7c1ddace970848c553cba16b37d2e2413e9aa73f3b2e8f3d51bde4a1a8cefee48fe61a014bbee9039bdba71e5454764570c5a"
	answers := map[string]string{
		"admin_nodeInfo": `"result":{"name":"EthereumJS/0.10.5/linux/node20.20.2","enode":"enode://` + key + `@127.0.0.1:39303","id":"` + key + `","ip":"127.0.0.1",` +
			`"listenAddr":"127.0.0.1:39303","ports":{"discovery":39303,"listener":39303},"protocols":{"eth":{"difficulty":"1","network":"560048"}}}`,
		"admin_peers":      `"result":[]`,
		"admin_addPeer":    `"error":{"code":-32602,"message":"invalid argument 0: argument is not object"}`,
		"admin_removePeer": `"result":false`,
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var call struct {
			ID     json.RawMessage
			Method string
		}
		if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
			t.Error(err)
		}
		if answers[call.Method] == "" {
			http.Redirect(w, r, "http://192.0.2.1/", http.StatusTemporaryRedirect)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, call.ID, answers[call.Method])
	}))
	defer s.Close()
	at, err := parseEndpoint("", s.URL)
	if err != nil {
		t.Fatal(err)
	}
	a, err := dialAdmin(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	info, err := a.Info(t.Context())
	if err != nil || info.isGeth() || listenPort(info) != 39303 {
		t.Fatalf("%+v, %v", info, err)
	}
	if f, err := faceOf(info); err != nil || f.eth != nil || hex.EncodeToString(crypto.FromECDSAPub(f.key)[1:]) != key {
		t.Errorf("%+v, %v", f, err)
	}
	if peers, err := a.Peers(t.Context()); err != nil || len(peers) != 0 {
		t.Errorf("%v, %v", peers, err)
	}
	if err := a.AddPeer(t.Context(), "enode://x"); err == nil || !strings.Contains(err.Error(), "not object") {
		t.Errorf("adding: %v", err)
	}
	if err := a.RemovePeer(t.Context(), "enode://x"); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("removing: %v", err)
	}
	for _, wrong := range []string{`"result":[null]`, `"result":[{"id":5}]`, ""} {
		answers["admin_peers"] = wrong
		if got, err := a.Peers(t.Context()); err == nil {
			t.Errorf("%s: %v", wrong, got)
		}
	}
	for _, wrong := range []string{`"result":null`, `"error":{"code":-32603,"message":"not yet"}`} {
		answers["admin_nodeInfo"] = wrong
		if got, err := a.Info(t.Context()); err == nil {
			t.Errorf("%s: %v", wrong, got)
		}
	}
}
