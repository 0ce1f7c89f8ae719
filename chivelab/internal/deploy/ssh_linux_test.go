package deploy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// TestReach: no value of an inventory that a shell, or ssh, would take for something else comes through.
func TestReach(t *testing.T) {
	good := strings.Replace(sevenNodes("known_hosts = 'keys'"), `role = "guard"`, "role = \"guard\"\nuser = 'pi'\nhost = 'board-2.lab'\nport = 2222\nidentity = 'key of pi'\narch = 'arm64'\ndirectory = '/var/tmp'", 1)
	inv, err := Parse("/lab/x.toml", []byte(good))
	if err != nil {
		t.Fatal(err)
	}
	n := inv.Node(Guard)
	if want := (Reach{"pi", "board-2.lab", 2222, "/lab/key of pi", "arm64", "/var/tmp"}); n.Reach != want || inv.KnownHosts != "/lab/keys" || inv.place(n) != "/lab/x.toml:10: guard" {
		t.Errorf("%+v, %q, %q", n.Reach, inv.KnownHosts, inv.place(n))
	}
	r := newRemote(inv, n, "")
	got := strings.Join(r.options(), "|")
	for _, want := range []string{"-o|BatchMode=yes|", "-o|StrictHostKeyChecking=yes|", `-o|UserKnownHostsFile="/lab/keys"|`, "|-i|/lab/key of pi|-p|2222|-l|pi|--|board-2.lab"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
	if r := newRemote(inv, inv.Node(Exit), ""); r.reach.Host != inv.Node(Exit).Address.String() {
		t.Error("host:", r.reach.Host)
	}
	for key, was := range map[string]string{"user": "'pi'", "host": "'board-2.lab'", "port": "2222", "identity": "'key of pi'", "arch": "'arm64'", "directory": "'/var/tmp'", "known_hosts": "'keys'"} {
		bad := []string{`""`, `"-oProxyCommand=x"`, `"a\nb"`, `"a\u0000b"`, `"$(x)"`, "\"a`x`\"", `"a;x"`, `"a'b"`, `"a\"b"`, `"%h"`, `"a\u001bb"`, "1.5", "['a']", "0"}
		if key == "identity" || key == "known_hosts" { // names of files: they become whole paths, and no shell sees them
			bad = []string{`""`, `"a\nb"`, `"a\u0000b"`, `"$(x)"`, `"a\"b"`, `"%h"`, `"a\u001bb"`, "1.5"}
		}
		if key == "directory" {
			bad = append(bad, `"var"`, `"/"`, `"/a/"`, `"/a/../b"`, `"/a b"`, `"/a*"`)
		}
		for _, is := range bad {
			doc := strings.Replace(good, key+" = "+was, key+" = "+is, 1)
			if _, err := Parse("x.toml", []byte(doc)); !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), key) || !strings.HasPrefix(err.Error(), "x.toml:") {
				t.Errorf("%s = %s: %v", key, is, err)
			}
		}
	}
}

// TestQuote: what a shell gets is the word, whatever it is; a word that no quotes make safe is refused.
func TestQuote(t *testing.T) {
	words := []string{"", "-n", "a b", "$(touch x) `touch x` $HOME", "it's", "'", `\`, `"`, "*", "~", "; exit 1", "&&", "\x1b[2J", "ä\xff"}
	line := "printf '%s|'"
	for _, w := range words {
		q, err := quote(w)
		if err != nil {
			t.Fatal(err)
		}
		line += " " + q
	}
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir = t.TempDir()
	if out, err := cmd.Output(); err != nil || string(out) != strings.Join(words, "|")+"|" {
		t.Errorf("%q, %v", out, err)
	}
	if left, err := os.ReadDir(cmd.Dir); err != nil || len(left) != 0 {
		t.Error(left, err)
	}
	for _, w := range []string{"a\nb", "a\rb", "a\x00b"} {
		if _, err := quote(w); !fault.Is(err, fault.Config) {
			t.Errorf("%q: %v", w, err)
		}
		if _, err := (&order{script: "true", args: []string{w}}).command(); !fault.Is(err, fault.Config) {
			t.Errorf("%q: %v", w, err)
		}
	}
}

// withSSH has a script in the place of ssh: its last argument is the command for the board.
func withSSH(t *testing.T, script string) *remote {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ssh"), []byte("#!/bin/sh\nfor c; do :; done\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return &remote{reach: Reach{Host: "board"}, name: "guard", sockets: dir}
}

// TestCommand: a command gets its arguments and its input, and what a board's shell says before it is not its answer.
func TestCommand(t *testing.T) {
	r := withSSH(t, `echo "Welcome!"; sh -c "$c"`)
	out, err := r.do(t.Context(), order{script: `cat; echo "$1" "$2"`, args: []string{"a  'b'", "$c"}, input: strings.NewReader("in ")})
	if err != nil || string(out) != "in a  'b' $c\n" {
		t.Errorf("%q, %v", out, err)
	}
	if _, err := r.do(t.Context(), order{script: "echo why >&2; exit 3"}); err == nil || err.Error() != "why" {
		t.Error(err)
	}
	if _, err := r.do(t.Context(), order{script: "echo x: No space left on device >&2; exit 1"}); !fault.Is(err, fault.Resource) {
		t.Error(err)
	}
	if _, err := r.do(t.Context(), order{script: "echo broken >&2; exit 255"}); !fault.Is(err, fault.Network) || errors.Is(err, errUnreached) {
		t.Error(err)
	}
}

// TestHostileBoard: a board that answers without end, never, or with something else is an error, and its answer changes no terminal.
func TestHostileBoard(t *testing.T) {
	for script, want := range map[string]fault.Kind{
		"yes":                                fault.Protocol,
		"yes >&2":                            fault.Protocol,
		"exec sleep 1000":                    fault.Timeout,
		"echo This account is closed.":       fault.Protocol,
		"printf 'no \\033[2J' >&2; exit 255": fault.Network,
		"echo Host key verification failed. >&2; exit 255":          fault.Refused,
		"echo 'pi@x: Permission denied (publickey).' >&2; exit 255": fault.Refused,
	} {
		limit := time.Minute
		if want == fault.Timeout {
			limit = 100 * time.Millisecond
		}
		out, err := withSSH(t, script).do(t.Context(), order{script: "true", time: limit})
		if !fault.Is(err, want) || len(out) != 0 || strings.ContainsRune(err.Error(), 0x1b) || len(err.Error()) > 2*tellLines*tellLine {
			t.Errorf("%s: %q, %v", script, out, err)
		}
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := (&remote{}).do(t.Context(), order{script: "true"}); !fault.Is(err, fault.Config) || !errors.Is(err, errUnreached) {
		t.Error("without ssh:", err)
	}
}

// TestProbe: what a board says of itself is checked.
func TestProbe(t *testing.T) {
	inv, err := Parse("x.toml", []byte(sevenNodes("")))
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	good := "/d/.chivelab-deploy-00-guard\nLinux\nx86_64\n1\n/dev/x 9 9 999999999 9% /\n"
	for _, c := range []struct{ was, is, want string }{
		{"", "", ""},
		{"Linux", "FreeBSD", "not Linux"},
		{"x86_64", "sparc", `"sparc"`},
		{"x86_64", "aarch64", "board is arm64"},
		{"999999999", "9", "disk is full"},
		{"999999999", "-9", "says of itself"},
		{"999999999", "x", "says of itself"},
		{"\n1\n", "\nx\n", "says of itself"},
		{"/d/.", "/d/x.", "says of itself"},
		{"/d/.", "d/.", "says of itself"},
		{"/d/.", "/a b/.", "set directory"},
		{"/d/.", "/\x1b[2J/.", "set directory"},
		{" 9 9 999999999 9% /", "", "says of itself"},
		{good, "", "says of itself"},
	} {
		r := withSSH(t, "cat <<'END'\n"+begun+"\n"+strings.Replace(good, c.was, c.is, 1)+"END")
		b := &sshBoard{remote: *r, node: inv.Node(Guard), inv: inv, programs: &Programs{One: own}, id: "00"}
		if err := b.probe(t.Context()); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v", c.is, err)
		}
		if !b.maybe {
			t.Error("what is there would not be removed")
		}
	}
}

// TestClocks: a board whose clock is far from the directory's is named; how far all are from this machine's is no matter.
func TestClocks(t *testing.T) {
	directory := &sshBoard{node: &Node{Role: Directory, Name: "directory"}, ahead: 24 * time.Hour}
	guard := &sshBoard{node: &Node{Role: Guard, Name: "guard"}, ahead: 24*time.Hour - maxClock}
	name := func(n *Node) string { return n.Name }
	if err := checkClocks([]*sshBoard{guard, directory}, name); err != nil {
		t.Error(err)
	}
	guard.ahead -= time.Second
	if err := checkClocks([]*sshBoard{guard, directory}, name); !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), "guard: its clock differs by -30m1s") {
		t.Error(err)
	}
}

// TestRecord: clean believes only what a run writes, in a directory where nobody else can write.
func TestRecord(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	withSSH(t, `echo "$@" >>`+tmp+`/asked; sh -c "$c"`)
	board := t.TempDir()
	at := filepath.Join(board, ".chivelab-deploy-0123456789abcdef-guard")
	good := `[{"name": "guard", "reach": {"host": "board", "directory": "` + board + `"}, "base": ".chivelab-deploy-0123456789abcdef-guard"}]`
	left := func(doc string, mode os.FileMode) string {
		dir := filepath.Join(tmp, homePrefix+"1")
		for _, err := range []error{os.MkdirAll(at, 0o700), os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, recordName), []byte(doc), 0o600), os.WriteFile(filepath.Join(dir, lockName), nil, 0o600), os.Chmod(dir, mode)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	asked := func() bool {
		err := os.Remove(filepath.Join(tmp, "asked"))
		return err == nil
	}
	for _, c := range [][2]string{{"", ""}, {good, "{"}, {`"guard"`, `"-guard"`}, {`"board"`, `"-oProxyCommand=x"`}, {`"board"`, `""`}, {".chivelab-deploy-0123456789abcdef-guard", "*"},
		{".chivelab-deploy-0123456789abcdef-guard", ".chivelab-deploy-0123456789abcde*-guard"}, {board, board + "/../x"}, {`"host"`, `"identity": "-x", "host"`}, {`"base"`, `"known_hosts": "a\"b", "base"`}} {
		dir := left(strings.Replace(good, c[0], c[1], 1), 0o700)
		removed, err := Clean(t.Context())
		if want := c[0] == ""; (err == nil) != want || (len(removed) == 2) != want || asked() != want {
			t.Errorf("%q: %q, %v", c[1], removed, err)
		}
		if _, err := os.Stat(at); (err == nil) != (c[0] != "") {
			t.Errorf("%q: %v", c[1], err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	left(good, 0o777)
	if removed, err := Clean(t.Context()); err != nil || len(removed) != 0 || asked() {
		t.Error("where anybody can write:", removed, err)
	}
}

// TestKeep: the end of a program is told to whoever waits, and so is that it was ready.
func TestKeep(t *testing.T) {
	for script, want := range map[string]string{"echo ready": "", "echo ready; exit 3": "exit status 3", "echo ready; kill -9 $$": "signal: killed"} {
		dir := t.TempDir()
		in, alive := io.Pipe()
		if err := Keep(t.Context(), dir, []string{"sh", "-c", script}); err != nil {
			t.Fatal(err)
		}
		if err := Await(t.Context(), dir, true, in); err != nil {
			t.Error(err)
		}
		if err := Await(t.Context(), dir, false, in); (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%s: %v", script, err)
		}
		if err := Keep(t.Context(), dir, []string{"true"}); err == nil {
			t.Error("a program is kept twice")
		}
		alive.Close()
	}
	dir := t.TempDir()
	if err := Keep(t.Context(), dir, []string{"echo", "no"}); err != nil {
		t.Fatal(err)
	}
	in, alive := io.Pipe()
	defer alive.Close()
	if err := Await(t.Context(), dir, true, in); err == nil || !strings.Contains(err.Error(), "has ended") {
		t.Error(err)
	}
}

// TestAwaitEnds: whoever waits ends with the connection, and the program does not.
func TestAwaitEnds(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- Keep(ctx, dir, []string{"sh", "-c", "echo ready; exec sleep 1000"}) }()
	for {
		if out, err := os.ReadFile(filepath.Join(dir, outputName)); err == nil && bytes.Contains(out, []byte("ready")) {
			break
		}
	}
	if err := Await(t.Context(), dir, false, strings.NewReader("")); err == nil || !strings.Contains(err.Error(), "has gone") {
		t.Error(err)
	}
	select {
	case err := <-done:
		t.Error("the program has ended:", err)
	default:
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestReportCheck: a client's report is the one that was asked for.
func TestReportCheck(t *testing.T) {
	inv := &Inventory{Circuits: 2, Handshakes: []string{"ntor-v3"}}
	for want, r := range map[string]Report{
		"":            {Circuits: 2, Handshakes: []*Handshake{{Name: "ntor-v3", Built: 1, Failed: 1}}},
		"1 circuits":  {Circuits: 1, Handshakes: []*Handshake{{Name: "ntor-v3", Built: 1}}},
		"with 0":      {Circuits: 2},
		"handshake 1": {Circuits: 2, Handshakes: []*Handshake{nil}},
		"not ntor-v3": {Circuits: 2, Handshakes: []*Handshake{{Name: "\x1b[2J", Built: 2}}},
		"3 of 2":      {Circuits: 2, Handshakes: []*Handshake{{Name: "ntor-v3", Built: 3, Failed: -1}}},
	} {
		if err := r.check(inv); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
