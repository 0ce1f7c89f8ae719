package cli

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestRunAsDaemon: who starts the program has an answer and its standard output back when the ports are open; the program goes on in a
// session and a folder of its own, reads its torrc again and ends as any other. A start that fails says why, with C tor's exit code,
// and leaves alone the files of the one that runs.
func TestRunAsDaemon(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	text := fmt.Sprintf("DataDirectory %s\nPidFile %s\nControlPort auto\nControlPortWriteToFile %s\nDisableNetwork 1\nRunAsDaemon 1\n", at("data"), at("pid"), at("port"))
	if err := os.WriteFile(at("torrc"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	start := func(stdin string, args ...string) (string, error) {
		cmd := chiveCommand(append([]string{"tor"}, args...)...)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
		var said, failed strings.Builder
		cmd.Stdout, cmd.Stderr = &said, &failed // Run ends when nobody has them open any more
		watchdog := time.AfterFunc(daemonTime, func() { cmd.Process.Kill() })
		defer watchdog.Stop()
		err := cmd.Run()
		if failed.Len() > 0 {
			t.Errorf("%q: standard error: %s", args, &failed)
		}
		return said.String(), err
	}
	for _, c := range []struct{ stdin, file string }{{"", "torrc"}, {text, "-"}} {
		said, err := start(c.stdin, "-f", c.file)
		if err != nil || !strings.Contains(said, "Opened Control listener connection (ready) on 127.0.0.1:") {
			t.Fatalf("%s: %v\n%s", c.file, err, said)
		}
		pid := daemonOf(t, at("pid"))
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err != nil || strings.Fields(string(stat))[5] != strconv.Itoa(pid) {
			t.Errorf("no session of its own: %s %v", stat, err)
		}
		for name, want := range map[string]string{"cwd": at("data"), "fd/0": os.DevNull, "fd/1": os.DevNull, "fd/2": os.DevNull} {
			if got, err := os.Readlink(fmt.Sprintf("/proc/%d/%s", pid, name)); got != want {
				t.Errorf("%s: %s %v", name, got, err)
			}
		}
		if got := control(t, at("port"), "GETCONF RunAsDaemon", "SIGNAL RELOAD", "GETINFO process/pid"); got != fmt.Sprintf("250 OK|250 RunAsDaemon=1|250 OK|250-process/pid=%d|250 OK|", pid) {
			t.Errorf("%s: %s", c.file, got)
		}
		port, err := os.ReadFile(at("port"))
		if err != nil {
			t.Fatal(err)
		}
		said, err = start("", "-f", "torrc", "DataDirectory", at("other"), "ControlPort", strings.TrimSpace(strings.TrimPrefix(string(port), "PORT=")))
		if !failedWith(err, 1) || !strings.Contains(said, "[warn] Failed to bind one of the listener ports.") || daemonOf(t, at("pid")) != pid {
			t.Errorf("%v %s", err, said)
		}
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		await(t, "the end", func() bool {
			_, err := os.Stat(at("pid"))
			return os.IsNotExist(err)
		})
	}
	for want, args := range map[string][]string{
		"PidFile pid":         {"PidFile", "pid"},
		"Log file log":        {"Log", "notice file log"},
		"HiddenServiceDir hs": {"HiddenServiceDir", "hs", "HiddenServicePort", "80"},
		"Unknown option":      {"NoSuchOption", "1"},
		"/nowhere/":           {"PidFile", "/nowhere/pid"},
	} {
		if said, err := start("", append([]string{"-f", "torrc"}, args...)...); !failedWith(err, 1) || !strings.Contains(said, want) {
			t.Errorf("%q: %v\n%s", args, err, said)
		}
	}
}

// daemonOf reads a program's number from its file, and has it end with the test.
func daemonOf(t *testing.T, file string) int {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := os.Stat(file); err == nil { // it has not ended
			syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return pid
}

func failedWith(err error, code int) bool {
	e, ok := err.(*exec.ExitError)
	return ok && e.ExitCode() == code
}

// control sends commands to the control port that a file names, and returns the lines of the answers.
func control(t *testing.T, file string, commands ...string) string {
	t.Helper()
	port, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", strings.TrimSpace(strings.TrimPrefix(string(port), "PORT=")))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(longest))
	in, all := bufio.NewScanner(c), ""
	for _, command := range append([]string{"AUTHENTICATE"}, commands...) {
		fmt.Fprintf(c, "%s\r\n", command)
		for in.Scan() {
			all += in.Text() + "|"
			if len(in.Text()) > 3 && in.Text()[3] == ' ' {
				break
			}
		}
	}
	return all
}
