package interop

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/ctortest"
	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/netfile"
	"github.com/chivenet/chive/internal/relay"
	"github.com/chivenet/chive/lab"
	chiverelay "github.com/chivenet/chive/relay"
)

// TestDirectoryCache checks that a Chive relay in a network of stock C tor does
// everything that a directory cache must do: plain HTTP and stem on its DirPort,
// stem and stock clients through its ORPort.
func TestDirectoryCache(t *testing.T) {
	t.Parallel()
	nw := ctortest.Network(t, ctor.Options{Authorities: 1, Relays: 2, Exits: 1, VotingInterval: 10 * time.Second, LogLevel: "info"})
	r := startRelay(t, nw, relay.Config{Nickname: "chivecache", AssumeReachable: true, DirListen: netip.MustParseAddrPort("127.0.0.1:0"), ExtraInfo: true})
	measured(t, nw, r)
	await(t, "the relay is listed", patience, func() bool { return strings.Contains(r.Status().Flags, "Guard") })
	t.Logf("%+v", r.Status())
	base := "http://" + r.DirPortAddr().String()
	var ns []byte
	await(t, "the ns consensus with all descriptors", patience, func() bool {
		ns, _ = fetchDir(t, base+"/tor/status-vote/current/consensus", nil)
		all, _ := fetchDir(t, base+"/tor/server/all", nil)
		return ns != nil && bytes.Count(all, []byte("\nrouter-signature\n")) >= bytes.Count(ns, []byte("\nr "))
	})
	c, err := netdoc.ParseConsensus(ns, nil, nil)
	if err != nil || c.Flavor != netdoc.FlavorNS {
		t.Fatal(err)
	}
	t.Run("encodings", func(t *testing.T) {
		for enc, open := range map[string]func(io.Reader) (io.Reader, error){
			"deflate": func(r io.Reader) (io.Reader, error) { return zlib.NewReader(r) },
			"gzip":    func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
			"x-zstd":  func(r io.Reader) (io.Reader, error) { return zstd.NewReader(r) },
		} {
			for _, flavor := range []string{"", "-microdesc"} {
				body, head := fetchDir(t, base+"/tor/status-vote/current/consensus"+flavor, map[string]string{"Accept-Encoding": enc})
				if head.Get("Content-Encoding") != enc {
					t.Errorf("%s: it came as %q", enc, head.Get("Content-Encoding"))
					continue
				}
				z, err := open(bytes.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				plain, err := io.ReadAll(z)
				if err != nil || !bytes.HasPrefix(plain, []byte("network-status-version 3")) {
					t.Errorf("%s: %.40q %v", enc, plain, err)
				}
			}
		}
	})
	t.Run("diff", func(t *testing.T) {
		var next []byte
		await(t, "the next consensus", patience, func() bool {
			next, _ = fetchDir(t, base+"/tor/status-vote/current/consensus", nil)
			return next != nil && !bytes.Equal(next, ns)
		})
		diff, _ := fetchDir(t, base+"/tor/status-vote/current/consensus", map[string]string{"X-Or-Diff-From-Consensus": strings.ToUpper(hex.EncodeToString(c.SHA3Signed[:]))})
		got, err := netdoc.ApplyDiff(ns, diff)
		if err != nil {
			t.Fatalf("%v: %.60q", err, diff)
		}
		if _, err := netdoc.ParseConsensus(got, nil, nil); err != nil {
			t.Error(err)
		}
	})
	t.Run("stem", func(t *testing.T) {
		// Stem 1.8 takes no microdescriptor without a TAP key for valid.
		validate := fmt.Sprint(c.Method < 37)
		out, err := exec.CommandContext(bounded(t, patience), stemPython(t), "-c", stemRemote, hostPort(r.DirPortAddr().String()), hostPort(r.Addrs()[0].String()), validate).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		t.Logf("stem got %s", bytes.TrimSpace(out))
	})
}

// TestDirectoryCacheClient runs a stock client that fetches every kind of
// document, from one guard, which is a Chive relay.
func TestDirectoryCacheClient(t *testing.T) {
	t.Parallel()
	needPrograms(t)
	tor, _, err := ctor.Find("")
	labtest.Need(t, "C tor", err)
	ctx := bounded(t, 10*time.Minute)
	nw, err := lab.Start(ctx, lab.Options{Relays: 3, Exits: 1, Relay: func(_ string, cfg *chiverelay.Config) { cfg.CacheExtraInfo = true }})
	if err != nil {
		t.Fatal(err)
	}
	defer nw.Close()
	text, err := os.ReadFile(nw.NetworkFile)
	if err != nil {
		t.Fatal(err)
	}
	net, err := netfile.Parse(nw.NetworkFile, text)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	rc := []string{"TestingTorNetwork 1", "SocksPort 0", "DataDirectory " + dir, "UseMicrodescriptors 0", "FetchUselessDescriptors 1", "DownloadExtraInfo 1",
		"PathsNeededToBuildCircuits 0.67", "EntryNodes $" + nw.Node("chiverelay0").Fingerprint, "Log notice file " + filepath.Join(dir, "log")}
	for _, a := range net.Authorities {
		rc = append(rc, fmt.Sprintf("DirAuthority %s orport=%d no-v2 v3ident=%s %s %s", a.Nickname, a.ORPorts[0].Port(), a.V3Ident, a.DirPort, a.RSA))
	}
	file := filepath.Join(dir, "torrc")
	if err := os.WriteFile(file, []byte(strings.Join(rc, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, tor, "--defaults-torrc", "/nonexistent", "-f", file, "--hush")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			logTail(t, filepath.Join(dir, "log"))
		}
	}()
	holds := func(name, what string, n int) func() bool {
		return func() bool {
			b, err := os.ReadFile(filepath.Join(dir, name))
			return err == nil && strings.Count(string(b), what) >= n
		}
	}
	await(t, "the bootstrap", patience, holds("log", "Bootstrapped 100%", 1))
	await(t, "the ns consensus", patience, holds("cached-consensus", "\ndirectory-signature ", 2))
	await(t, "the descriptors", patience, holds("cached-descriptors.new", "\nrouter-signature\n", 4))
	await(t, "the extra-info documents", patience, holds("cached-extrainfo.new", "\nrouter-signature\n", 4))
}

func hostPort(s string) string {
	a := netip.MustParseAddrPort(s)
	return fmt.Sprintf("%s %d", a.Addr(), a.Port())
}

// fetchDir makes one request; nil without a document.
func fetchDir(t *testing.T, url string, header map[string]string) ([]byte, http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(bounded(t, time.Minute), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept-Encoding", "identity")
	for k, v := range header {
		req.Header[k] = []string{v}
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != 200 {
		return nil, res.Header
	}
	return b, res.Header
}

// stemRemote makes stem download everything from a DirPort and an ORPort, with
// validation except for consensuses: those of C tor's test networks recommend no
// versions, which stem reports as a mistake.
const stemRemote = `
import sys, stem, stem.descriptor.remote as remote
from stem.descriptor import Compression, DocumentHandler
dirport, orport = (a.split() for a in sys.argv[1:3])
endpoints = {"DirPort": stem.DirPort(dirport[0], int(dirport[1])), "ORPort": stem.ORPort(orport[0], int(orport[1]), [4, 5])}
said = []
for name, e in endpoints.items():
    d = remote.DescriptorDownloader(endpoints=[e], fall_back_to_authority=False, timeout=60)
    routers = list(d.get_consensus().run())
    micro = list(d.get_consensus(microdescriptor=True).run())
    descs = list(d.get_server_descriptors(validate=True).run())
    some = list(d.get_server_descriptors([r.fingerprint for r in routers[:2]], validate=True).run())
    extra = list(d.get_extrainfo_descriptors([r.fingerprint for r in routers], validate=True).run())
    md = list(d.get_microdescriptors([r.microdescriptor_digest for r in micro], validate=sys.argv[3] == "true").run())
    certs = list(d.get_key_certificates(validate=True).run())
    gz = list(d.get_server_descriptors(compression=[Compression.GZIP]).run())
    assert len(routers) >= 5 and len(micro) == len(routers) and len(descs) >= len(routers), (len(routers), len(micro), len(descs))
    assert len(some) == 2 and len(md) == len(routers) and len(certs) >= 1 and len(gz) == len(descs), (len(some), len(md), len(certs), len(gz))
    assert len(extra) >= len(routers) - 1, len(extra)
    said.append("%s: %d relays, %d descriptors, %d extra-infos, %d microdescriptors" % (name, len(routers), len(descs), len(extra), len(md)))
print("; ".join(said))
`
