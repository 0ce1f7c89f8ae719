package interop

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/lab/socksclient"
	"github.com/chivenet/chive/internal/lab/target"
	"github.com/chivenet/chive/lab"
)

// TestLabUp runs a network with "chivelab up": every node in its own process,
// with a bridge and its transport. Its line of JSON is enough to use all parts,
// and after the stop nothing is left behind.
func TestLabUp(t *testing.T) {
	t.Parallel()
	needPrograms(t)
	bin, err := buildLab()
	if err != nil {
		t.Fatal(err)
	}
	plugin := "chive exec " + bin
	up := exec.Command(bin, "up", "--json", "--commands", "--voting-interval", "10s", "--processes", "--authorities", "1", "--relays", "2", "--exits", "1",
		"--bridges", "1", "--bridge-transport", plugin,
		"--socks", fmt.Sprintf("127.0.0.1:%d", freePort(t))) // that nobody else listens at afterwards
	tmp := t.TempDir()
	up.Env = append(os.Environ(), "TMPDIR="+tmp)
	up.Stderr = t.Output()
	out, err := up.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	commands, err := up.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	defer up.Process.Kill() // it has ended, unless the test fails
	// It has time to start, to be used, and to end.
	watchdog := time.AfterFunc(3*patience, func() { up.Process.Kill() })
	defer watchdog.Stop()
	said := bufio.NewReader(out)
	line, err := said.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var nw struct {
		NetworkFile string `json:"network_file"`
		SOCKS       string
		TargetURL   string `json:"target_url"`
		Dir         string
		Nodes       []lab.Node
	}
	if err := json.Unmarshal([]byte(line), &nw); err != nil {
		t.Fatal(err)
	}
	host, _, _ := strings.Cut(strings.TrimPrefix(nw.TargetURL, "http://"), "/")
	ctx := bounded(t, patience)
	if c, err := (socksclient.Dialer{Proxy: nw.SOCKS}).DialContext(ctx, "tcp", host); err != nil {
		t.Error(err)
	} else {
		c.Close()
	}
	network, err := chive.LoadNetwork(nw.NetworkFile)
	if err != nil {
		t.Fatal(err)
	}
	var listening, bridge []string
	for i := range nw.Nodes {
		n := &nw.Nodes[i]
		if n.ORPort != "" {
			listening = append(listening, n.ORPort)
		}
		if n.SOCKS != "" {
			listening = append(listening, n.SOCKS)
		}
		bridge = append(bridge, n.Bridge...)
	}
	if len(listening) != 1+2+1+1+1 || len(bridge) != 2 || !strings.HasPrefix(bridge[1], "chive ") {
		t.Fatalf("nodes: %s", line)
	}
	for _, l := range bridge {
		cfg := chive.Config{Network: network, DataDir: t.TempDir(), Bridges: []string{l}}
		if strings.HasPrefix(l, "chive ") {
			cfg.ClientTransportPlugins = []string{plugin}
		}
		c, err := chive.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := c.DialContext(ctx, "tcp", shared.target.Addr(target.Echo))
		if err != nil {
			t.Errorf("by the bridge line %.40s...: %v", l, err)
		} else {
			if end, ok := ctx.Deadline(); ok {
				conn.SetDeadline(end)
			}
			if err := exchange(conn, "by a bridge", func() error { return nil }); err != nil {
				t.Error(err)
			}
			conn.Close()
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if n := using(t, nw.Dir); n < 6 {
		t.Errorf("%d processes for 6 nodes", n)
	}
	listening = append(listening, addAtRunTime(t, commands, said, nw.SOCKS)...)
	if n := using(t, nw.Dir); n < 10 {
		t.Errorf("%d processes for 10 nodes", n)
	}
	if err := up.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(said); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v", rest, err)
	}
	if err := up.Wait(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("files are left: %v, %v", left, err)
	}
	for _, addr := range listening {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			t.Errorf("%s is still listened at", addr)
		}
	}
	await(t, "all processes are gone", patience, func() bool { return using(t, nw.Dir) == 0 })
}

// addAtRunTime has "chivelab up" add nodes, and uses them. It returns where they listen.
func addAtRunTime(t *testing.T, commands io.Writer, said *bufio.Reader, socks string) (listening []string) {
	t.Helper()
	type node struct { // of lab.Node, and how the command failed
		Name, Fingerprint, ORPort, SOCKS, Onion, Error string
		Bridge                                         []string
	}
	ask := func(command string) (n node) {
		t.Helper()
		began := time.Now()
		if _, err := fmt.Fprintln(commands, command); err != nil {
			t.Fatal(err)
		}
		line, err := said.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(line), &n); err != nil {
			t.Fatal(err, line)
		}
		t.Logf("%s: %.80s after %v", command, line, time.Since(began).Round(time.Millisecond))
		return n
	}
	for _, c := range []string{"add authority", "add nothing", "remove relay"} {
		if n := ask(c); n.Error == "" {
			t.Errorf("%s: %+v", c, n)
		}
	}
	if n := ask("add relay"); n.Name != "chiverelay2" || n.Fingerprint == "" {
		t.Errorf("%+v", n)
	} else {
		listening = append(listening, n.ORPort)
	}
	if n := ask("add bridge"); n.Name != "chivebridge1" || len(n.Bridge) != 2 {
		t.Errorf("%+v", n)
	} else {
		listening = append(listening, n.ORPort)
	}
	client, onion := ask("add client"), ask("add onion")
	listening = append(listening, client.SOCKS)
	for _, proxy := range []string{socks, client.SOCKS} {
		c, err := socksclient.Dialer{Proxy: proxy}.DialContext(bounded(t, patience), "tcp", onion.Onion+":80")
		if err != nil {
			t.Errorf("the onion service %+v: %v", onion, err)
			continue
		}
		c.Close()
	}
	return listening
}

// using counts the processes with a directory on their command line.
func using(t *testing.T, dir string) (n int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(all) == 0 {
		t.Skipf("SKIPPED: no /proc to count processes by: %v", err)
	}
	for _, p := range all {
		if b, err := os.ReadFile(p); err == nil && strings.Contains(string(b), dir) { // it may have ended
			n++
		}
	}
	return n
}
