package relay

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/cert"
	"github.com/chivenet/chive/internal/dirserver"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
)

// onionsEnv makes the test binary a directory of onion services only, so that all memory of the process is its.
const onionsEnv = "CHIVE_TEST_ONIONS"

// The directory's share of the public network's descriptors, larger than it is today.
const (
	publicOnions   = 4000
	onionBytes     = 30_000
	onionAddresses = 400
)

// TestOnionsProcess is that directory: it takes the descriptors, and prints how many it keeps, what the
// account counts for them, and how much the process has grown.
func TestOnionsProcess(t *testing.T) {
	if os.Getenv(onionsEnv) == "" {
		t.Skip("a part of TestOnionsOfPublicSize")
	}
	memory := account.New(account.BoundOf(0))
	c := newDirCache(dirserver.Config{Memory: memory, Log: slog.New(slog.DiscardHandler)}, func() *netdir.Directory { return nil }, nil)
	post := func(i int) {
		peer := dirserver.Peer{Addr: netip.AddrFrom4([4]byte{192, 0, byte(i % onionAddresses >> 8), byte(i % onionAddresses)}), Tunnelled: true, MultiHop: true}
		r := &dirserver.Request{Method: "POST", Path: dirserver.HSPublishPath, Body: onionDescriptor(t)}
		if res := c.extra(context.Background(), peer, r); res.Status != 200 {
			t.Fatalf("descriptor %d: %+v", i, res)
		}
	}
	post(0)
	debug.FreeOSMemory()
	counted, before := memory.Used(), resident(t)
	for i := range publicOnions - 1 {
		post(1 + i)
	}
	counted = memory.Used() - counted
	after := resident(t)
	n, _ := c.onions.Held()
	runtime.KeepAlive(c)
	fmt.Printf("onions %d %d %d\n", n, counted, after-before)
}

// onionDescriptor makes a descriptor of a new service of onionBytes bytes. What only clients can read is random.
func onionDescriptor(t *testing.T) []byte {
	t.Helper()
	key, err := cert.GenerateExpanded(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, signing, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := cert.Ed25519{Type: cert.BlindedVSigning, Expires: time.Now().Add(54 * time.Hour), KeyType: cert.KeyEd25519, Key: cert.IdentityOf(signing), Signer: key.Public(), HasSigner: true}
	b := []byte("hs-descriptor 3\ndescriptor-lifetime 180\ndescriptor-signing-key-cert\n")
	b = netdoc.AppendObject(b, "ED25519 CERT", c.Encode(key.Sign))
	b = append(b, "revision-counter 1\nsuperencrypted\n"...)
	super := make([]byte, (onionBytes-len(b)-200)*48/65)
	if _, err := rand.Read(super); err != nil {
		t.Fatal(err)
	}
	b = netdoc.AppendObject(b, "MESSAGE", super)
	sig := ed25519.Sign(signing, append([]byte("Tor onion service descriptor sig v3"), b...))
	return append(b, "signature "+base64.RawStdEncoding.EncodeToString(sig)+"\n"...)
}

// resident returns the process's resident memory, in bytes.
func resident(t *testing.T) int64 {
	t.Helper()
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "\nVmRSS:")
	kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kb << 10
}

// TestOnionsOfPublicSize: a directory of onion services keeps all of the public network's size with the least default of
// max-memory, and its process grows by little more than the account counts.
func TestOnionsOfPublicSize(t *testing.T) {
	if testing.Short() || raceDetector || runtime.GOOS != "linux" {
		t.Skip("it measures this process's memory by /proc")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestOnionsProcess$")
	cmd.Env = append(os.Environ(), onionsEnv+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for s := bufio.NewScanner(bytes.NewReader(out)); s.Scan(); {
		var kept int
		var counted, grown int64
		if _, err := fmt.Sscanf(s.Text(), "onions %d %d %d", &kept, &counted, &grown); err != nil {
			continue
		}
		t.Logf("%d of %d descriptors kept, %d kB counted, the process has grown by %d kB: %.2f", kept, publicOnions, counted>>10, grown>>10, float64(grown)/float64(counted))
		if kept != publicOnions {
			t.Errorf("%d descriptors are kept, not %d", kept, publicOnions)
		}
		if counted < publicOnions*onionBytes*9/10 || float64(grown) > 1.2*float64(counted) {
			t.Errorf("%d bytes are counted, the process has grown by %d", counted, grown)
		}
		return
	}
	t.Fatalf("it says nothing:\n%s", out)
}
