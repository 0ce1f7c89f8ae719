package programs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The programs under test, by absolute paths.
var (
	chive    = inBin("chive", "CHIVE")
	chivelab = inBin("chivelab", "CHIVELAB")
)

// inBin returns a program that "make build" made, or another one that a variable names.
func inBin(name, variable string) string {
	if p := os.Getenv(variable); p != "" {
		return p
	}
	p, err := filepath.Abs(filepath.Join("..", "..", "bin", name))
	if err != nil {
		panic(err)
	}
	return p
}

// need skips a test loudly if programs are missing, and returns their paths. PROGRAMS_NEED=1 makes it a failure.
func need(t *testing.T, names ...string) (paths []string) {
	t.Helper()
	for _, name := range names {
		p, err := exec.LookPath(name)
		if err != nil {
			missing(t, name)
		}
		paths = append(paths, p)
	}
	return paths
}

func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("PROGRAMS_NEED") == "1" {
		t.Fatalf("%s is not here", what)
	}
	fmt.Fprintf(os.Stderr, "SKIPPED: %s: %s is not here\n", t.Name(), what)
	t.Skipf("%s is not here", what)
}

// python returns a Python that has modules: that of PROGRAMS_PYTHON, or the system's.
func python(t *testing.T, modules ...string) string {
	t.Helper()
	for _, p := range []string{os.Getenv("PROGRAMS_PYTHON"), "python3", "/usr/bin/python3"} {
		if p != "" && exec.Command(p, "-c", "import "+strings.Join(modules, ", ")).Run() == nil {
			return p
		}
	}
	missing(t, "Python with "+strings.Join(modules, " and "))
	return ""
}

// asTor returns Chive by the name tor, in a folder of its own. PROGRAMS_TOR names another tor, to compare.
func asTor(t *testing.T) string {
	t.Helper()
	target := chive
	if other := os.Getenv("PROGRAMS_TOR"); other != "" {
		target = other
	}
	link := filepath.Join(t.TempDir(), "tor")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	return link
}

// network is a private network that chivelab runs.
type network struct {
	Socks       string `json:"socks"`
	NetworkFile string `json:"network_file"`
	Target      string `json:"target_url"`
	torrc       string // for clients
}

var lab *network // one for all tests

func TestMain(m *testing.M) {
	os.Exit(func() int {
		n, stop, err := up("5m")
		if err != nil {
			fmt.Fprintln(os.Stderr, "cannot start a network:", err)
			return 1
		}
		defer stop()
		lab = n
		return m.Run()
	}())
}

// up starts a network. All of it ends with stop, or with this process.
func up(voting string) (*network, func(), error) {
	cmd := exec.Command(chivelab, "up", "--json", "--relays", "8", "--exits", "2", "--voting-interval", voting)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	stop := func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
	}
	n := &network{}
	if err = json.NewDecoder(out).Decode(n); err == nil {
		n.torrc, err = torrcOf(n.NetworkFile)
	}
	if err != nil {
		stop()
		return nil, nil, err
	}
	return n, stop, nil
}

// torrcOf returns the lines of a torrc for a network's clients. Of the network file it reads only what chivelab writes.
func torrcOf(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	var lines strings.Builder
	lines.WriteString("TestingTorNetwork 1\nEnforceDistinctSubnets 0\n")
	for _, section := range strings.Split(string(text), "[[authority]]")[1:] {
		at := map[string]string{}
		for l := range strings.Lines(section) {
			if k, v, ok := strings.Cut(strings.TrimSpace(l), " = "); ok {
				at[k] = strings.Trim(v, `[]"`)
			}
		}
		_, port, _ := strings.Cut(at["orport"], ":")
		fmt.Fprintf(&lines, "DirAuthority %s orport=%s no-v2 v3ident=%s %s %s\n", at["nickname"], port, at["v3ident"], at["dirport"], at["rsa"])
	}
	return lines.String(), nil
}

// torrcFile writes the network's torrc with lines of its own.
func torrcFile(t *testing.T, more ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "torrc")
	if err := os.WriteFile(path, []byte(lab.torrc+strings.Join(more, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// running is a tor with a control port that is there for a test.
type running struct {
	Socks, Control, Cookie, Dir string
	pid                         int
}

// start starts Chive as tor, and waits until it is connected. It has a control port with a cookie.
func start(t *testing.T, lines ...string) *running {
	t.Helper()
	dir := t.TempDir()
	r := &running{Dir: dir, Cookie: filepath.Join(dir, "control_auth_cookie")}
	lines = append([]string{"DataDirectory " + dir, "SocksPort auto", "ControlPort auto", "CookieAuthentication 1", "ControlPortWriteToFile " + dir + "/port"}, lines...)
	cmd := exec.Command(asTor(t), "-f", torrcFile(t, lines...))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.pid = cmd.Process.Pid
	log := make(chan string, 1000)
	go func() {
		buf := make([]byte, 64<<10)
		text := ""
		for {
			n, err := out.Read(buf)
			text += string(buf[:n])
			for {
				l, rest, ok := strings.Cut(text, "\n")
				if !ok {
					break
				}
				text = rest
				select {
				case log <- l:
				default:
				}
			}
			if err != nil {
				close(log)
				return
			}
		}
	}()
	var seen []string
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		for l := range log {
			seen = append(seen, l)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("it ended with %v", err)
		}
		if stderr.Len() > 0 {
			t.Errorf("on standard error: %s", stderr.String())
		}
		if t.Failed() {
			t.Logf("log:\n%s", strings.Join(seen, "\n"))
		}
	})
	limit := time.After(time.Minute)
	for done := false; !done; {
		select {
		case l, ok := <-log:
			if !ok {
				t.Fatalf("it ended:\n%s", strings.Join(seen, "\n"))
			}
			seen = append(seen, l)
			if _, addr, ok := strings.Cut(l, "Opened Socks listener connection (ready) on "); ok {
				r.Socks = strings.TrimSpace(addr)
			}
			done = strings.Contains(l, "Bootstrapped 100%")
		case <-limit:
			t.Fatalf("it does not connect:\n%s", strings.Join(seen, "\n"))
		}
	}
	b, err := os.ReadFile(dir + "/port")
	if err != nil {
		t.Fatal(err)
	}
	r.Control = strings.TrimPrefix(strings.TrimSpace(string(b)), "PORT=")
	return r
}

// page serves a page, and returns its address.
func page(t *testing.T, text string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(text)) }))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// run runs a program with a bound, and returns what it wrote.
func run(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.WaitDelay = 5 * time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s\n%s", strings.Join(cmd.Args, " "), err, out, stderr.String())
	}
	return string(out)
}

// fetch gets a page through a SOCKS port with curl, which tries again for a while.
func fetch(t *testing.T, socks, url string, more ...string) string {
	t.Helper()
	need(t, "curl")
	args := append([]string{"-sS", "--fail", "--max-time", "60", "--retry", "20", "--retry-all-errors", "--retry-delay", "1", "--retry-max-time", "120", "-x", "socks5h://" + socks}, more...)
	return run(t, nil, "curl", append(args, url)...)
}
