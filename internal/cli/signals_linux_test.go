package cli

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gofrs/flock"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/chivenet/chive/authority"
	"github.com/chivenet/chive/fte"
	"github.com/chivenet/chive/internal/hsservice"
)

// longest is how long a test waits until a process waits or ends. No run comes near it.
const longest = 30 * time.Second

// TestSignals: whatever a command waits for, the first SIGINT or SIGTERM ends it, or, where the
// table gives a reason, the second. The rows are those of usables, one for each option that
// names a file, which is a pipe to which nobody writes, and one for the output of each command,
// which is a pipe that is full.
func TestSignals(t *testing.T) {
	// A shell ignores SIGINT in what it starts in the background, and programs inherit that from
	// this process. They do not inherit that somebody catches it.
	caught := make(chan os.Signal, 1)
	if signal.Ignored(os.Interrupt) {
		signal.Notify(caught, os.Interrupt)
		defer signal.Ignore(os.Interrupt)
	}
	makeAuthority(t)
	root := Chive()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	left := map[string]bool{}
	var running sync.WaitGroup
	room := make(chan struct{}, 8) // they wait more than they work
	run := func(name string, f func(t *testing.T)) {
		running.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			t.Run(name, f)
		})
	}
	for path := range usables {
		left[path] = true
	}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(sub)
		}
		path := strings.TrimPrefix(c.CommandPath(), "chive ")
		u, known := usables[path]
		if strict := c.HasSubCommands() && !known && !c.DisableFlagParsing; strict {
			return // it only shows its help, or it is a command and the next check finds it
		}
		if !known {
			t.Errorf("chive %s is not in the table usables: say what it waits for", path)
			return
		}
		delete(left, path)
		for _, w := range append(u.more, optionRows(c, path, u)...) {
			run(path+"/"+w.name, func(t *testing.T) { testWait(t, w) })
		}
		if !u.mute {
			w := waiting{args: path + " " + u.args, full: 1, code: exitFailed}
			if long(c) {
				w.code = 0
			}
			run(path+"/a reader", func(t *testing.T) { testWait(t, w) })
		}
	}
	walk(root)
	running.Wait()
	for path := range left {
		t.Errorf("chive %s is in the table, and no command", path)
	}
}

// optionRows returns a row for each option that names a file.
func optionRows(c *cobra.Command, path string, u usable) (rows []waiting) {
	c.Flags().AddFlagSet(c.InheritedFlags())
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if kind, _ := pflag.UnquoteUsage(f); kind != "FILE" {
			return
		}
		o, of := fileOptions[path+" --"+f.Name]
		if !of {
			o = fileOptions[f.Name]
		}
		if o.never != "" {
			return
		}
		w := waiting{name: "--" + f.Name, refuse: true, args: path + " " + u.args + " " + o.with + " --" + f.Name + " FIFO"}
		if o.name != "" {
			w.args += "=" + o.name
		}
		w.args += u.last
		if !long(c) {
			w.code = exitFailed
		}
		rows = append(rows, w)
	})
	return rows
}

// long reports whether a command takes its time to end.
func long(c *cobra.Command) bool {
	_, ok := c.Annotations[takesTime]
	return ok
}

// fullPipe returns the writing end of a pipe that has no more room.
func fullPipe(t *testing.T) *os.File {
	r, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); out.Close() })
	fd := int(out.Fd())
	if err := syscall.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{4096, 1} {
		for err = nil; err == nil; {
			_, err = syscall.Write(fd, make([]byte, size))
		}
		if !errors.Is(err, syscall.EAGAIN) {
			t.Fatal(err)
		}
	}
	if err := syscall.SetNonblock(fd, false); err != nil {
		t.Fatal(err)
	}
	return out
}

// testWait runs a command until it waits, and tells it to stop, twice if need be.
func testWait(t *testing.T, w waiting) {
	p := newPlace(t)
	cmd := chiveCommand(p.fill(w.args)...)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "HOME="+p.dir, "XDG_STATE_HOME="+p.dir+"/state")
	said := new(shared)
	cmd.Stdout, cmd.Stderr = said, said
	if w.full == 1 {
		cmd.Stdout = fullPipe(t)
	} else if w.full == 2 {
		cmd.Stderr = fullPipe(t)
	}
	if w.full > 0 {
		p.ready = func(pid int) bool { return inCall(t, pid, syscall.SYS_WRITE, w.full) }
	} else if w.says != "" {
		p.ready = func(int) bool { return strings.Contains(said.String(), w.says) }
	}
	if p.ready == nil {
		t.Fatalf("%s: nothing in it can be waited for", w.args)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	defer func() { cmd.Process.Kill(); <-ended }()
	// wait waits for the end of the process, or until cond holds.
	wait := func(most time.Duration, cond func() bool) (end, ok bool) {
		for limit := time.Now().Add(most); time.Now().Before(limit); {
			select {
			case <-ended:
				return true, false
			case <-time.After(5 * time.Millisecond):
				if cond() {
					return false, true
				}
			}
		}
		return false, false
	}
	refused := func() bool {
		code := cmd.ProcessState.ExitCode()
		return w.refuse && refusal.MatchString(said.String()) && (code == exitMistake || code == exitFailed)
	}
	end, ok := wait(longest, func() bool { return p.ready(cmd.Process.Pid) })
	if end && refused() {
		return
	}
	if end || !ok {
		t.Fatalf("it does not wait as it should (ended: %v): %s\n%s", end, strings.Join(cmd.Args, " "), said)
	}
	never := func() bool { return false }
	signal := syscall.SIGINT
	if len(w.args)%2 == 0 { // both are tried, and the same one each time
		signal = syscall.SIGTERM
	}
	cmd.Process.Signal(signal)
	if w.late == "" {
		if end, _ := wait(longest, never); !end {
			t.Errorf("the first %v does not end it in %v: %s\n%s", signal, longest, strings.Join(cmd.Args, " "), said)
		} else if code := cmd.ProcessState.ExitCode(); code != w.code && !refused() {
			t.Errorf("exit code %d (%v), want %d: %s\n%s", code, cmd.ProcessState, w.code, strings.Join(cmd.Args, " "), said)
		}
		return
	}
	if end, _ := wait(maxCut/2, never); end {
		t.Errorf("one signal was enough: the table gives a reason why it is not: %s", w.late)
	}
	cmd.Process.Signal(signal)
	if end, _ := wait(longest, never); !end {
		t.Errorf("two signals do not end it in %v: %s\n%s", longest, strings.Join(cmd.Args, " "), said)
	} else if s := cmd.ProcessState; s.ExitCode() != exitKilled && s.Sys().(syscall.WaitStatus).Signal() != signal {
		t.Errorf("it ended by %v, neither with exit code %d nor by the signal: %s\n%s", s, exitKilled, strings.Join(cmd.Args, " "), said)
	}
}

// refusal is what commands say of a file that must be a regular one. The log is opened without
// waiting.
var refusal = regexp.MustCompile(`(?m)^chive: .*(it is no regular file|this is no file of at most|--log-file: open .*: no such device)`)

// inCall reports whether a thread of a process waits in a system call, with the given first argument
// unless that is negative.
func inCall(t *testing.T, pid, call, arg int) bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", pid))
	if err != nil {
		t.Error(err)
	}
	for _, name := range threads {
		text, err := os.ReadFile(name)
		if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
			t.Skip("SKIPPED, NOTHING WAS TESTED: this machine does not let a process see the system calls of its children")
		}
		f := strings.Fields(string(text))
		if len(f) > 1 && f[0] == strconv.Itoa(call) && (arg < 0 || f[1] == fmt.Sprintf("%#x", arg)) {
			return true
		}
	}
	return false
}

// place is what the words in a command line stand for.
type place struct {
	t     *testing.T
	dir   string
	ready func(pid int) bool // somebody waits for what it has made
	own   []string           // the ports of an authority
}

func newPlace(t *testing.T) *place { return &place{t: t, dir: t.TempDir()} }

var (
	words = regexp.MustCompile(`'[^']*'|\S+`)
	named = regexp.MustCompile(`[A-Z]{3,}(=\S+)?`)
)

// fill returns the arguments of a command line.
func (p *place) fill(line string) (args []string) {
	p.write("net.toml", lonely)
	p.write("torrc", "TestingTorNetwork 1\nDirAuthority a orport=1 no-v2 v3ident=F533C81CEF0BC0267857C99B2F471ADF249FA232 127.0.0.1:2 2F3DF9CA0E5D36F2685A2DA67184EB8DCB8CBA8C\n")
	for _, w := range words.FindAllString(line, -1) {
		args = append(args, named.ReplaceAllStringFunc(strings.Trim(w, "'"), func(s string) string {
			name, of, _ := strings.Cut(s, "=")
			switch name {
			case "DIR":
				return p.dir
			case "NET":
				return filepath.Join(p.dir, "net.toml")
			case "ONIONTOML":
				return p.write("onion.toml", "[[onion]]\nkey-dir = '"+p.dir+"/key'\nport = ['80=127.0.0.1:1']\n")
			case "TORRC":
				return filepath.Join(p.dir, "torrc")
			case "FIFO":
				return p.fifo(cmp.Or(of, "fifo"))
			case "KEYS":
				p.fifo("keys/" + of)
				return filepath.Join(p.dir, "keys")
			case "DEAF":
				return p.deaf("tcp", "127.0.0.1:0")
			case "BUSY":
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					p.t.Fatal(err)
				}
				p.t.Cleanup(func() { l.Close() })
				if of == "port" {
					return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
				}
				return l.Addr().String()
			case "DEAFNET":
				return p.write("deaf.toml", strings.Replace(lonely, "127.0.0.1:1", p.deaf("tcp", "127.0.0.1:0"), 1))
			case "AUTH":
				return p.authority()
			case "AUTHNET", "AUTHDEAFNET":
				return p.authorities(name == "AUTHDEAFNET")
			case "AUTHPORT":
				return p.ports()[0]
			case "DIRPORT":
				return p.ports()[1]
			case "FTEKEY":
				k, err := fte.NewServerKey(rand.Reader)
				if err != nil {
					p.t.Fatal(err)
				}
				return p.write("ftekey", k.Line()+"\n")
			case "READER":
				name := p.write("transport", "#!/bin/sh\nexec cat '"+p.fifo("silence")+"'\n")
				if err := os.Chmod(name, 0o700); err != nil {
					p.t.Fatal(err)
				}
				return name
			case "INUSE":
				return p.inUse()
			case "ONION", "CLIENTS":
				dir := filepath.Join(p.dir, "onion")
				if _, err := hsservice.OpenKey(dir); err != nil {
					p.t.Fatal(err)
				}
				if name == "ONION" {
					return dir
				}
				if _, err := hsservice.AddClient(dir, "alice", "", func(string) error { return nil }); err != nil {
					p.t.Fatal(err)
				}
				return dir
			}
			return s
		}))
	}
	return args
}

func (p *place) write(name, text string) string {
	return writeFile(p.t, filepath.Join(p.dir, name), text)
}

// fifo makes a pipe to which nobody writes.
func (p *place) fifo(name string) string {
	name = filepath.Join(p.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), syscall.Mkfifo(name, 0o600)); err != nil {
		p.t.Fatal(err)
	}
	p.ready = func(int) bool {
		w, err := os.OpenFile(name, os.O_WRONLY|syscall.O_NONBLOCK, 0) // an error until somebody reads
		if err == nil {
			p.t.Cleanup(func() { w.Close() })
		}
		return err == nil
	}
	return name
}

// deaf makes a server that accepts one connection and says nothing.
func (p *place) deaf(network, addr string) string {
	l, err := net.Listen(network, addr)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { l.Close() })
	asked := make(chan net.Conn, 1)
	go func() {
		if c, err := l.Accept(); err == nil {
			asked <- c
		}
	}()
	before := p.ready
	p.ready = func(pid int) bool {
		select {
		case c := <-asked:
			p.t.Cleanup(func() { c.Close() })
			return true
		default:
			return before != nil && before(pid)
		}
	}
	return l.Addr().String()
}

// inUse makes the data directory of a client that does not answer.
func (p *place) inUse() string {
	dir := filepath.Join(p.dir, "inuse")
	if err := os.Mkdir(dir, 0o700); err != nil {
		p.t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, ofLonely), 0o700); err != nil {
		p.t.Fatal(err)
	}
	lock := flock.New(filepath.Join(dir, ofLonely, "lock"))
	if ok, err := lock.TryLock(); err != nil || !ok {
		p.t.Fatal(ok, err)
	}
	p.t.Cleanup(func() { lock.Close() })
	p.deaf("unix", filepath.Join(dir, "status.sock"))
	return dir
}

// makeAuthority makes madeAuthority for a test.
func makeAuthority(t *testing.T) {
	t.Helper()
	var err error
	madeAuthority.dir = t.TempDir()
	if madeAuthority.keys, err = authority.MakeKeys(filepath.Join(madeAuthority.dir, "keys"), "", 12, nil); err != nil {
		t.Fatal(err)
	}
}

// madeAuthority is an authority's data directory, which the runs copy, with its keys.
var madeAuthority struct {
	dir  string
	keys *authority.Keys
}

func (p *place) authority() string {
	dir := filepath.Join(p.dir, "auth")
	if err := os.CopyFS(dir, os.DirFS(madeAuthority.dir)); err != nil {
		p.t.Fatal(err)
	}
	return dir
}

func (p *place) ports() []string {
	if p.own == nil {
		p.own = []string{freePort(p.t), freePort(p.t)}
	}
	return p.own
}

// authorities returns the network file of an authority, and of a deaf one.
func (p *place) authorities(deaf bool) string {
	k := madeAuthority.keys
	ports := p.ports()
	text := fmt.Sprintf("name = 'one'\n[testing]\nallow_private_addresses = true\n[[authority]]\nnickname = 'auth1'\nv3ident = %q\nrsa = %q\norport = ['127.0.0.1:%s']\ndirport = '127.0.0.1:%s'\n",
		k.V3Ident, k.RSA, ports[0], ports[1])
	if deaf {
		text += fmt.Sprintf("[[authority]]\nnickname = 'auth2'\nv3ident = '1111111111111111111111111111111111111111'\nrsa = '2222222222222222222222222222222222222222'\norport = ['127.0.0.1:1']\ndirport = %q\n", p.deaf("tcp", "127.0.0.1:0"))
	}
	return p.write("auth.toml", text)
}

// shared is a buffer that a process writes to and a test reads.
type shared struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *shared) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(b)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
