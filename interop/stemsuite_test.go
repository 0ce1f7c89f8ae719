package interop

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/labtest"
)

// stemSource is where `make peers-stem` puts stem's sources, which have its tests.
const stemSource = "../bin/stem/source"

// suiteDifferences are the tests of stem's that C tor passes and Chive does not, with the reasons.
var suiteDifferences = map[string]string{}

// ownProcess is the reason of tests in which the program has no part.
const ownProcess = "it wants a process of stem's own to be over within a second"

// unsteady are tests whose result depends on the machine, with either program.
var unsteady = map[string]string{
	"util.proc.TestProc/test_stats":                                                              "it wants the program to have used a hundredth of a second of the processor",
	"process.TestProcess/Runs launch_tor where it times out before completing.":                  "it wants a launch to be given up within three seconds",
	"util.system.TestSystem/Checks DaemonTask when an exception is raised.":                      ownProcess,
	"util.system.TestSystem/Checks a simple, successfully DaemonTask that simply echos a value.": ownProcess,
}

// suiteRoles are torrcs without a network: the one directory authority is nobody. The relay's is stem's own torrc. least is how many
// tests C tor passes of the target RUN_OPEN at the least: fewer, and the suite did not run.
var suiteRoles = map[string]struct {
	config string
	least  int
}{
	"client": {`integ.torrc
|SocksPort [SOCKS_PORT]
|DataDirectory [DATA_DIR]
|Log notice stdout
|SafeLogging 0
` + suiteNetwork, 115},
	"relay": {suiteNetwork + `|GeoIPFile /dev/null
|GeoIPv6File /dev/null
`, 123},
}

const suiteNetwork = `integ.extra_torrc
|DirAuthority dead orport=1 no-v2 v3ident=0000000000000000000000000000000000000001 127.0.0.1:1 0000000000000000000000000000000000000002
|TestingTorNetwork 1
`

// suiteTime bounds one run of stem's tests. One takes about 20 seconds, eight times as long with all targets, and longer where there is
// a network.
const suiteTime = 20 * time.Minute

// TestStemSuite runs stem's own integration tests, without a network, against C tor and against chive by the
// name tor, each as a client and as a relay, and compares test by test. What is not the same must be in the table above, and what
// is there must not be the same. STEM_TARGET names another target than RUN_OPEN, such as RUN_ALL.
func TestStemSuite(t *testing.T) {
	own := suitePeer(t)
	// The suite has fixed ports, which a network namespace keeps from others.
	inside := suiteSpace(t, "-n")
	target, mine := cmp.Or(os.Getenv("STEM_TARGET"), "RUN_OPEN"), torProgram(t)
	for name, role := range suiteRoles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compareSuites(t, role.least, func(tor string) map[string]string { return runSuite(t, inside, tor, role.config, "--target", target) }, own, mine)
		})
	}
}

// suitePeer returns C tor, and says what is missing for stem's tests.
func suitePeer(t *testing.T) string {
	t.Helper()
	own, _, err := ctor.Find("")
	labtest.Need(t, "C tor", err)
	if os.Getenv("CHIVE_NO_STEM") != "" {
		t.Skip("CHIVE_NO_STEM is set: stem's sources could not be fetched, and its tests DID NOT RUN")
	}
	_, err = os.Stat(filepath.Join(stemSource, "run_tests.py"))
	labtest.Need(t, "stem's tests (make peers-stem)", err)
	return own
}

// suiteSpace returns the beginning of a command that runs in namespaces: of processes, so that nothing of the suite is left, and of
// what the options of unshare say.
func suiteSpace(t *testing.T, options ...string) []string {
	t.Helper()
	namespace, err := exec.LookPath("unshare")
	labtest.Need(t, "unshare", err)
	inside := append([]string{namespace, "-p", "-f", "--kill-child", "--mount-proc"}, options...)
	if os.Geteuid() != 0 {
		inside = append(inside, "-r")
	}
	labtest.Need(t, "namespaces", exec.Command(namespace, append(inside[1:], "true")...).Run())
	return inside
}

// compareSuites runs the suite with C tor and with Chive, and fails for what is not as the tables say. least is how many tests C tor
// passes at the least.
func compareSuites(t *testing.T, least int, run func(tor string) map[string]string, own, mine string) {
	t.Helper()
	theirs := run(own)
	ours := run(mine)
	t.Logf("C tor: %s; Chive: %s", count(theirs), count(ours))
	if n := passed(theirs); n < least {
		t.Fatalf("C tor passes %d tests: the suite did not run", n)
	}
	names := slices.Sorted(maps.Keys(theirs))
	for name := range suiteDifferences {
		if !slices.ContainsFunc(names, func(n string) bool { return ofTest(n) == name && theirs[n] == "SUCCESS" }) {
			t.Errorf("%s is no success with C tor: the table of differences is wrong", name)
		}
	}
	for _, name := range names {
		if r := theirs[name]; r != "SUCCESS" && r != "SKIPPED" {
			t.Logf("%s: %s with C tor, %s with Chive", name, r, ours[name])
		}
		if unsteady[ofTest(name)] != "" || theirs[name] != "SUCCESS" {
			continue
		}
		_, known := suiteDifferences[ofTest(name)]
		switch fine := ours[name] == "SUCCESS"; {
		case !fine && !known:
			t.Errorf("%s: C tor passes it, and Chive's result is %q", name, ours[name])
		case fine && known:
			t.Errorf("%s: Chive passes it, so it is no difference any more", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(ours)) {
		if theirs[name] == "" {
			t.Errorf("%s ran with Chive alone", name)
		}
	}
}

// ofTest is the name of a test without its target.
func ofTest(name string) string {
	return name[strings.LastIndexByte(name[:strings.IndexByte(name, '/')], ' ')+1:]
}

// runSuite returns the result of each test. options are the suite's own.
func runSuite(t *testing.T, inside []string, tor, torrc string, options ...string) map[string]string {
	t.Helper()
	python, err := exec.LookPath("/usr/bin/python3")
	labtest.Need(t, "Python", err)
	dir := t.TempDir()
	source := filepath.Join(dir, "source") // the suite writes into its folder
	if err := os.CopyFS(source, os.DirFS(stemSource)); err != nil {
		t.Fatal(err)
	}
	withoutInstallation(t, filepath.Join(source, "test"))
	config := filepath.Join(dir, "torrc.cfg")
	if err := os.WriteFile(config, []byte(torrc), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append(slices.Clone(inside), "sh", "-c", `{ ip -o link show up dev lo | grep -q . || ip link set lo up; } && exec "$@"`, "sh", python, "run_tests.py", "--integ", "--tor", tor, "--verbose")
	args = append(args, options...)
	cmd := exec.CommandContext(bounded(t, suiteTime), args[0], args[1:]...)
	cmd.Dir, cmd.Env = source, append(os.Environ(), "STEM_TEST_CONFIG="+config)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	var failed *exec.ExitError
	if err != nil && !(errors.As(err, &failed) && failed.ExitCode() == 1) { // 1: a test has failed
		t.Fatalf("stem's tests with %s: %v\n%s", tor, err, out)
	}
	found := suiteResults(string(out))
	if len(found) == 0 {
		t.Fatalf("no results with %s:\n%s", tor, out)
	}
	return found
}

// withoutInstallation takes stem's tests of its own installation out of the suite. They are skipped anyway, and one of them waits
// for the process of another, for ever if that has ended before.
func withoutInstallation(t *testing.T, folder string) {
	t.Helper()
	settings := filepath.Join(folder, "settings.cfg")
	text, err := os.ReadFile(settings)
	if err != nil {
		t.Fatal(err)
	}
	const line = "|test.integ.installation.TestInstallation\n"
	if !strings.Contains(string(text), line) {
		t.Fatalf("%s has no line %q", settings, line)
	}
	err = os.WriteFile(settings, []byte(strings.Replace(string(text), line, "", 1)), 0o600)
	if err := errors.Join(err, os.Remove(filepath.Join(folder, "integ", "installation.py"))); err != nil {
		t.Fatal(err)
	}
}

var (
	colour = regexp.MustCompile(`\x1b\[[0-9;]*m`)
	begins = regexp.MustCompile(`^\s*Setting up a test instance`)
	aims   = regexp.MustCompile(`# Torrc options for the (\S+) target`)
	module = regexp.MustCompile(`^\s+test\.integ\.(\S+)\s*$`)
	// A test's line is its name, or the first line of its description, a reason or its time, and its result.
	result = regexp.MustCompile(`^(.*?)\s*\[(SUCCESS|SKIPPED|FAILURE|ERROR)\]`)
	detail = regexp.MustCompile(`(\s*\d[\d.]* ?m?s| \([^)]*\)| '.*')$`)
)

// suiteResults reads what the suite has printed: the result of each test by target, module and name. A target without options of its
// own has no name.
func suiteResults(out string) map[string]string {
	found := map[string]string{}
	target, in := "", ""
	for l := range strings.Lines(colour.ReplaceAllString(out, "")) {
		if begins.MatchString(l) {
			target = ""
		} else if m := aims.FindStringSubmatch(l); m != nil {
			target = m[1] + " "
		} else if m := module.FindStringSubmatch(strings.TrimRight(l, "\n")); m != nil {
			in = m[1]
		} else if m := result.FindStringSubmatch(l); m != nil && in != "" {
			name := target + in + "/" + detail.ReplaceAllString(m[1], "")
			found[name] = cmp.Or(worse(found[name], m[2]), m[2])
		}
	}
	return found
}

// TestSuiteResults: a long name stands right before its time.
func TestSuiteResults(t *testing.T) {
	got := suiteResults("  Setting up a test instance...\n  # Torrc options for the RUN_A target\n   test.integ.a.B\ntest_invalid105 ms   [SUCCESS]\ntest_v3   12 ms   [FAILURE]\ntest_c (no ports)  [SKIPPED]\n" +
		"  Setting up a test instance...\n   test.integ.a.B\ntest_v3   12 ms   [SUCCESS]\n")
	want := map[string]string{"RUN_A a.B/test_invalid": "SUCCESS", "RUN_A a.B/test_v3": "FAILURE", "RUN_A a.B/test_c": "SKIPPED", "a.B/test_v3": "SUCCESS"}
	if !maps.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

// worse returns a, if it is there and not a success: two tests may have one description.
func worse(a, b string) string {
	if a == "" || a == "SUCCESS" {
		return b
	}
	return a
}

func passed(r map[string]string) (n int) {
	for _, v := range r {
		if v == "SUCCESS" {
			n++
		}
	}
	return n
}

func count(r map[string]string) string {
	n := map[string]int{}
	for _, v := range r {
		n[v]++
	}
	return fmt.Sprint(n)
}
