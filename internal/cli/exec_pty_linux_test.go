package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// openPTY returns both ends of a terminal.
func openPTY(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("SKIPPED, NOTHING WAS TESTED:", err)
	}
	t.Cleanup(func() { ours.Close() })
	n, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	theirs, err = os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return ours, theirs
}

// execJob: a shell stops the program by ^Z, lets it go on, and ends it by ^C, as any other job.
func execJob(t *testing.T, r *execRig) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("SKIPPED, NOTHING WAS TESTED:", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), execPatience)
	defer cancel()
	ours, theirs := openPTY(t)
	shell := exec.CommandContext(ctx, "bash", "--norc", "--noprofile", "-i")
	shell.Stdin, shell.Stdout, shell.Stderr = theirs, theirs, theirs
	shell.Env = append(os.Environ(), "PS1=", "TERM=dumb", "HOME="+r.dir)
	shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	context.AfterFunc(ctx, func() { ours.Close() })
	var seen bytes.Buffer
	expect := func(what string) {
		t.Helper()
		for b := make([]byte, 4096); ; {
			if _, after, ok := strings.Cut(seen.String(), what); ok {
				seen.Reset()
				seen.WriteString(after)
				return
			}
			n, err := ours.Read(b)
			seen.Write(b[:n])
			if err != nil {
				t.Fatalf("%q did not come: %v: %q", what, err, seen.String())
			}
		}
	}
	say := func(text string) {
		t.Helper()
		if _, err := ours.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	job := strings.Join(append(r.command(ctx, "-q", "sh", "-c", `'trap "echo back" CONT; echo he""re; until read line && test "$line"; do :; done; echo got $line; exec sleep 1000'`).Args, "\n"), " ")
	say(job)
	expect("here\r\n")
	say("\x1a") // ^Z
	expect("Stopped")
	// The shell changes the terminal now, and what is typed at that moment may be lost: an empty line is.
	say("\necho in the sh\"\"ell\n")
	expect("in the shell\r\n")
	say("fg\n")
	expect("back\r\n") // before that, the terminal is the shell's
	say("\nword\n")
	expect("got word\r\n")
	say("\x03") // ^C
	expect("^C")
	say("\necho co\"\"de $?\n")
	expect("code 130\r\n")
	say("exit\n")
	if err := shell.Wait(); err != nil {
		t.Error(err)
	}
}
