package lab

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/authority"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/child"
	"github.com/chivenet/chive/internal/lab/target"
)

// runChildLocked starts the node as a process of chive, and returns its first lines.
// The caller holds mu.
func (n *Node) runChildLocked(ctx context.Context, args ...string) (map[string]string, error) {
	p, said, err := child.Start(ctx, logWriter{n.log()}, n.network.opts.Program, args...)
	if err != nil {
		return nil, fault.New(fault.KindOf(err), "%s: %w", n.Name, err)
	}
	n.child = p
	return said, nil
}

// startRelayChild starts a relay, an exit or a bridge as a process.
func (n *Node) startRelayChild(ctx context.Context) error {
	listen, err := n.listen()
	if err != nil {
		return err
	}
	args := []string{"relay", "--network", n.network.NetworkFile, "--data-dir", n.dir(), "--nickname", n.Name, "--contact", "lab",
		"--orport", listen, "--assume-reachable", "--shutdown-wait", "-1s"}
	switch n.Role {
	case Exit:
		args = append(args, "--exit-policy", strings.Join(exitPolicy, ","), "--exit-private",
			"--nameserver", n.network.target.Nameserver().String(), fmt.Sprintf("--ipv6-exit=%v", n.network.hasIPv6()))
	case Bridge:
		args = append(args, "--bridge")
		for _, l := range n.network.opts.BridgeTransports {
			args = append(args, "--transport-plugin", l)
		}
		for _, l := range n.transportListen() {
			args = append(args, "--transport-listen", l)
		}
	}
	said, err := n.runChildLocked(ctx, args...)
	if err != nil {
		return err
	}
	fp, _, _ := strings.Cut(said["fingerprint"], " ")
	if err := n.settle(fp, said["orport"]); err != nil {
		return err
	}
	if n.Role == Bridge {
		n.setBridge(strings.Split(said["bridge"], "\n"))
	}
	return nil
}

// startAuthorityChild starts an authority as a process, with the keys and the
// schedule of an authority in this process.
func (n *Node) startAuthorityChild(ctx context.Context, c authority.Config) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := c.Keys.Save(filepath.Join(n.dir(), "keys")); err != nil {
		return err
	}
	s := &c.Schedule
	args := []string{"authority", "--network", n.network.NetworkFile, "--data-dir", n.dir(), "--nickname", n.Name, "--contact", "lab",
		"--orport", c.ORPort.String(), "--dirport", c.DirPort.String(), "--testing", "--assume-reachable", "--prompt-first-round", fmt.Sprint("--wait-for-relays=", c.WaitForRelays),
		fmt.Sprint("--initial-voting-interval=", s.InitialInterval), fmt.Sprint("--initial-vote-delay=", s.InitialVoteDelay),
		fmt.Sprint("--initial-dist-delay=", s.InitialDistDelay), fmt.Sprint("--voting-interval=", s.Interval), fmt.Sprint("--vote-delay=", s.VoteDelay),
		fmt.Sprint("--dist-delay=", s.DistDelay), fmt.Sprint("--intervals-valid=", s.IntervalsValid)}
	for _, p := range c.Params {
		args = append(args, fmt.Sprintf("--param=%s=%d", p.Name, p.Value))
	}
	_, err := n.runChildLocked(ctx, args...)
	return err
}

// awaitPublished waits until an authority's DirPort serves a consensus.
func awaitPublished(ctx context.Context, dirPort netip.AddrPort) error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+dirPort.String()+"/tor/status-vote/current/consensus-microdesc", nil)
		if err != nil {
			return local(err)
		}
		res, err := client.Do(req)
		if err == nil {
			_, err = io.Copy(io.Discard, res.Body)
			res.Body.Close()
			if err == nil && res.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fault.New(fault.Timeout, "no consensus: %w", context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// startClientChild starts a client with a SOCKS port as a process.
func (n *Node) startClientChild(ctx context.Context, socks string) error {
	said, err := n.runClientChild(ctx, "proxy", "--socks", socks)
	n.SOCKS = said["socks"]
	return err
}

// startOnionChild starts an onion service as a process.
func (n *Node) startOnionChild(ctx context.Context) error {
	said, err := n.runClientChild(ctx, "onion", "serve", "--key-dir", filepath.Join(n.dir(), "key"), "80="+n.network.target.Addr(target.Web))
	n.Onion = said["onion"]
	return err
}

// runClientChild runs a command that has a client of the network in it.
func (n *Node) runClientChild(ctx context.Context, args ...string) (map[string]string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.refusedLocked(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(n.dir(), 0o700); err != nil {
		return nil, local(err)
	}
	config := filepath.Join(n.network.Dir, n.Name+".toml") // instead of the user's own
	if err := writeSecret(config, nil); err != nil {
		return nil, err
	}
	return n.runChildLocked(ctx, append(args, "--config", config, "--network", n.network.NetworkFile, "--data-dir", n.dir())...)
}
