package interop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/internal/panics"
)

// chiveClient is "chive proxy", as a user runs it.
type chiveClient struct{ binary string }

func (chiveClient) name() string { return "chive" }

// quirks: by its common appearance the client takes a set whenever one is ready, as C tor does.
func (chiveClient) quirks() quirks { return quirks{hopsExits: true} }

// TestChive runs the suite with Chive's client.
func TestChive(t *testing.T) {
	_, _, err := ctor.Find("")
	labtest.Need(t, "C tor", err)
	binary, err := buildChive()
	if err != nil {
		t.Fatal(err)
	}
	suite(t, chiveClient{binary})
}

// buildChive builds cmd/chive and, beside it, chivelab, once for all tests.
// TestMain removes them.
var buildChive = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "chive-interop-")
	if err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-o", dir+string(filepath.Separator), "github.com/chivenet/chive/cmd/chive", "github.com/chivenet/chive/chivelab")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // the static binary, as make build has it
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, out)
	}
	built = dir
	return filepath.Join(dir, "chive"), nil
})

// buildLab returns the laboratory's program.
func buildLab() (string, error) {
	bin, err := buildChive()
	return bin + "lab", err
}

// built is the directory that buildChive made.
var built string

func (c chiveClient) start(ctx context.Context, nw *ctor.Network, o startOptions) (*proxy, error) {
	network, err := nw.WriteNetworkFile()
	if err != nil {
		return nil, err
	}
	args := []string{"proxy", "--network", network, "--data-dir", o.dir, "--socks", "127.0.0.1:0", "--drain", "0s", "--log-level", "debug"}
	for i, flag := range []string{"--entry-nodes", "--middle-nodes", "--exit-nodes"} {
		if i < len(o.pin) && o.pin[i] != nil {
			args = append(args, flag, o.pin[i].ID.RSA.String())
		}
	}
	if len(o.pin) > 0 {
		args = append(args, "--strict-nodes", "--conflux", "off")
	}
	if alg, set := nw.Param("cc_alg"); set && alg == 0 {
		// C tor's relays up to 0.4.9.11 obey cc_alg=0, and refuse CGO with it. Clients since
		// 0.4.9.12 ask for both all the same, as Chive does.
		args = append(args, "--congestion-control", "off")
	}
	if o.oneGuard {
		args = append(args, "--num-entry-guards", "1", "--conflux", "off")
	}
	out, err := os.Create(filepath.Join(o.dir, "output"))
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.Command(c.binary, args...)
	cmd.Stdout, cmd.Stderr = out, out
	pr, err := nw.Run(cmd)
	if err != nil {
		return nil, err
	}
	for {
		b, err := os.ReadFile(out.Name())
		if err != nil {
			pr.Stop()
			return nil, err
		}
		if addr, ready := socksPort(string(b)); ready {
			return &proxy{addr, pr.PID(), func() error { return errors.Join(pr.Stop(), panicked(out.Name())) }}, nil
		}
		select {
		case <-pr.Done():
			return nil, fmt.Errorf("chive ended at its start: %s", b)
		case <-ctx.Done():
			pr.Stop()
			return nil, fmt.Errorf("chive is not ready (%w): %s", context.Cause(ctx), b)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// panicked returns an error if a log has a contained panic.
func panicked(file string) error {
	b, err := os.ReadFile(file)
	if _, after, found := strings.Cut(string(b), panics.Logged); err == nil && found {
		err = fmt.Errorf("%s%.2000s", panics.Logged, after)
	}
	return err
}

// socksPort finds, in the output of chive proxy, the address of the SOCKS port
// and whether the client is ready.
func socksPort(out string) (addr string, ready bool) {
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if a, ok := strings.CutPrefix(line, "socks "); ok {
			addr = a
		}
		ready = ready || line == "ready"
	}
	return addr, ready && addr != ""
}
