package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chivenet/chive/chivelab/internal/deploy"
)

// TestDeploySSH: seven boards with a stock sshd build all circuits with each handshake, the results have the same form as
// those of namespaces, and nothing is left.
func TestDeploySSH(t *testing.T) {
	b := inBoards(t, nil, nil)
	if b == nil {
		return
	}
	out := t.TempDir()
	do(t, "chivelab", "deploy", b.inventory(t), "--to", "ssh", "--out", out)
	if rows := readCSV(t, filepath.Join(out, deploy.SamplesName)); len(rows) != 1+4*2 || rows[1][2] != "" {
		t.Errorf("samples: %v", rows)
	}
	up := map[string]bool{}
	for _, row := range readCSV(t, filepath.Join(out, deploy.MetricsName)) {
		if row[2] == "up" && row[3] == "1" {
			up[row[1]] = true
		}
	}
	if delete(up, string(deploy.Client)); len(up) != 5 { // the client may be done between two looks
		t.Errorf("the monitor saw %v", up)
	}
	for _, name := range []string{deploy.ReportName, "build.svg", "up.png"} {
		if _, err := os.Stat(filepath.Join(out, name)); err != nil {
			t.Error(err)
		}
	}
	b.left(t)
}

// TestDeploySSHKilled: what a killed run has left on the boards goes on there, until clean removes it.
func TestDeploySSHKilled(t *testing.T) {
	b := inBoards(t, nil, nil)
	if b == nil {
		return
	}
	b.circuits = 100_000
	cmd := exec.Command("chivelab", "deploy", b.inventory(t), "--to", "ssh", "--out", t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready := false
	for lines := bufio.NewScanner(out); !ready && lines.Scan(); {
		ready = strings.Contains(lines.Text(), "ready")
	}
	do(t, "chivelab", "clean")                // which takes nothing of a run that goes on
	if n := b.running(t); !ready || n < 2*6 { // of all but the client, which may not have begun: one that keeps the program, and the program
		t.Errorf("ready: %v, %d processes", ready, n)
	}
	cmd.Process.Kill()
	io.Copy(io.Discard, out)
	cmd.Wait()
	if n := b.running(t); n < 2*6 {
		t.Error(n, "processes")
	}
	do(t, "chivelab", "clean")
	b.left(t)
}

// TestDeploySSHErrors: what is wrong with a board is an error that names the board and the line of the inventory.
func TestDeploySSHErrors(t *testing.T) {
	b := inBoards(t, map[deploy.Role]string{deploy.Client: "ForceCommand yes"}, map[deploy.Role]string{deploy.Directory: "1M"})
	if b == nil {
		return
	}
	taken := exec.Command("ip", "netns", "exec", "guard", "chivelab", "deploy", "node", "target", "--listen", "10.29.0.2:9001", "--metrics", "10.29.0.2:1")
	if err := taken.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, "10.29.0.2:9001")
	b.also[deploy.Middle] = "port = 23\n"
	b.also[deploy.Exit] = "arch = 'arm'\n"
	b.also[deploy.Target] = "identity = '" + b.key(t, "other") + "'\n"
	b.knownHosts[b.addr(5)] = strings.Replace(b.knownHosts[b.addr(0)], b.addr(0), b.addr(5), 1)
	out, err := exec.Command("chivelab", "deploy", b.inventory(t), "--to", "ssh", "--out", t.TempDir()).CombinedOutput()
	if err == nil {
		t.Error("it does not fail")
	}
	for _, want := range []string{
		":4: directory (root@10.29.0.1): its disk is full",
		":10: guard (root@10.29.0.2): port 9001 is taken",
		":16: middle (root@10.29.0.3 port 23): the board was not reached: ",
		":23: exit (root@10.29.0.4): the inventory says arch = \"arm\", and the board is amd64",
		":30: target (root@10.29.0.5): the board was not reached: it does not let this user in",
		":36: monitor (root@10.29.0.6): the board was not reached: its host key is not one",
		":42: client (root@10.29.0.7): the board says more than it may",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in: %s", want, out)
		}
	}
	if n := b.running(t); n != 0 {
		t.Error(n, "processes are left")
	}
	do(t, "umount", b.board(deploy.Directory))
}
