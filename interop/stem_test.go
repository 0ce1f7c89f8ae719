package interop

import (
	"bytes"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/exit"
	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/relay"
)

// stemScript parses files with validation on; each argument is a type and a
// path.
const stemScript = `
import sys, stem.descriptor
n = 0
for arg in sys.argv[1:]:
    kind, path = arg.split("=", 1)
    handler = stem.descriptor.DocumentHandler.DOCUMENT if "network-status" in kind else stem.descriptor.DocumentHandler.ENTRIES
    found = list(stem.descriptor.parse_file(path, descriptor_type=kind, validate=True, document_handler=handler))
    assert found, kind
    n += len(found)
    if "network-status" in kind:
        assert len(found[0].routers) >= 5, len(found[0].routers)
print(n)
`

// stemPython is the Python that has stem.
func stemPython(t *testing.T) (python string) {
	t.Helper()
	var err error
	for _, p := range []string{"python3", "/usr/bin/python3"} { // the system's may be hidden by another that lacks stem
		if err = exec.Command(p, "-c", "import stem").Run(); err == nil {
			return p
		}
	}
	labtest.Need(t, "stem", err)
	return ""
}

// addChive adds a relay, an exit and a bridge of Chive's, and returns the
// bridge.
func (an *authorityNet) addChive() *relay.Relay {
	t := an.t
	policy, err := exit.ParsePolicy([]string{"accept *:*"})
	if err != nil {
		t.Fatal(err)
	}
	runRelay(t, an.net, relay.Config{Nickname: "chiverelay", Contact: "lab"})
	runRelay(t, an.net, relay.Config{Nickname: "chiveexit", Contact: "lab", Exit: &exit.Config{Policy: policy, Private: true, Nameservers: []netip.AddrPort{shared.target.Nameserver()}}})
	b := runRelay(t, an.net, relay.Config{Nickname: "chivebridge", Bridge: true, AssumeReachable: true})
	await(t, "the bridge describes itself", patience, func() bool { return b.Descriptor() != nil })
	return b
}

// useStem has stem validate every document that an authority serves, detached
// signatures, and a bridge's descriptor.
func (an *authorityNet) useStem(detached, bridge []byte) {
	t := an.t
	python := stemPython(t)
	// A round that begins may have what an authority serves change hands.
	fetch := func(path string) (text []byte) {
		an.await(path, patience, func() bool {
			text, _ = fetchDir(t, "http://"+an.net.Authorities[0].DirPort.String()+path, nil)
			return text != nil
		})
		return text
	}
	dir := t.TempDir()
	args := []string{"-c", stemScript}
	micro, err := netdoc.ParseConsensus(fetch("/tor/status-vote/current/consensus-microdesc"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var digests []string
	for i := range micro.Routers {
		digests = append(digests, strings.TrimRight(b64(micro.Routers[i].Microdesc[:]), "="))
	}
	for kind, path := range map[string]string{
		"network-status-consensus-3 1.0":           "/tor/status-vote/current/consensus",
		"network-status-microdesc-consensus-3 1.0": "/tor/status-vote/current/consensus-microdesc",
		"network-status-vote-3 1.0":                "/tor/status-vote/current/authority",
		"dir-key-certificate-3 1.0":                "/tor/keys/all",
		"server-descriptor 1.0":                    "/tor/server/all",
		"microdescriptor 1.0":                      "/tor/micro/d/" + strings.Join(digests, "-"),
		"extra-info 1.0":                           "/tor/extra/all",
		"detached-signature-3 1.0":                 "",
	} {
		file := filepath.Join(dir, strings.ReplaceAll(kind, " ", "-"))
		text := detached
		if path != "" {
			text = fetch(path)
		}
		switch own := bytes.Count(text, []byte(" chiverelay ")); {
		case kind == "server-descriptor 1.0":
			text = append(text, bridge...)
			fallthrough
		case kind == "extra-info 1.0", strings.HasPrefix(kind, "network-status"):
			if own == 0 {
				t.Errorf("%s: nothing of Chive's relay", path)
			}
		}
		if strings.HasPrefix(kind, "microdescriptor") {
			text = withTAPKeys(t, text, fetch("/tor/keys/all"))
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		// Every relay has a family key.
		if n := bytes.Count(text, []byte("\nfamily-ids ed25519:")); strings.HasPrefix(kind, "microdescriptor") && n < 5 {
			t.Errorf("family-ids in %d microdescriptors", n)
		}
		args = append(args, kind+"="+file)
	}
	out, err := exec.Command(python, args...).CombinedOutput()
	if err != nil {
		t.Errorf("stem: %v: %s", err, out)
	}
	t.Logf("stem validated %s documents", bytes.TrimSpace(out))
}

// withTAPKeys puts a key of an authority's certificate into each microdescriptor. Stem 1.8
// takes none without a TAP key, and C tor's have none since consensus method 37.
func withTAPKeys(t *testing.T, micro, certs []byte) []byte {
	t.Helper()
	const begin, end = "-----BEGIN RSA PUBLIC KEY-----\n", "-----END RSA PUBLIC KEY-----\n"
	_, key, ok := bytes.Cut(certs, []byte(begin))
	key, _, ok2 := bytes.Cut(key, []byte(end))
	if n := bytes.Count(micro, []byte("onion-key\nntor-onion-key ")); !ok || !ok2 || n < 5 {
		t.Fatalf("%d microdescriptors without a TAP key", n)
	}
	return bytes.ReplaceAll(micro, []byte("onion-key\nntor-onion-key "), []byte("onion-key\n"+begin+string(key)+end+"ntor-onion-key "))
}
