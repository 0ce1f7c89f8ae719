package deploy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// remote runs commands on a board by the system's ssh.
type remote struct {
	reach      Reach
	name       string // of the node
	knownHosts string
	sockets    string // directory of the connections' sockets
}

// Bounds of a board that answers late, or too much.
const (
	quickTime   = time.Minute // of a command that has little to do
	connectTime = 10          // seconds
	aliveTime   = 15          // seconds after which a silent connection is asked whether it is alive
	aliveCount  = 3           // so many times
	maxSaid     = 64 << 10    // of what a command says, and of its errors
	maxResult   = 256 << 20   // of a file of results
	lingerTime  = 60          // seconds that a connection stays after the last command
)

// begun is what each command says before anything else: what a board's shell says before is not the command's.
const begun = "chivelab-deploy-begins"

// errUnreached is in the error of a command that did not reach the board.
var errUnreached = errors.New("the board was not reached")

// options returns ssh's arguments before the command. It asks nobody for anything, trusts no key that it does not
// know, and lends the board nothing.
func (r *remote) options() []string {
	args := []string{"-T", "-a", "-x"}
	set := func(key string, value any) { args = append(args, "-o", fmt.Sprintf("%s=%v", key, value)) }
	set("BatchMode", "yes")
	set("PasswordAuthentication", "no")
	set("KbdInteractiveAuthentication", "no")
	set("StrictHostKeyChecking", "yes")
	set("UpdateHostKeys", "no")
	if r.knownHosts != "" {
		set("UserKnownHostsFile", `"`+r.knownHosts+`"`)
		set("GlobalKnownHostsFile", "/dev/null")
	}
	set("ClearAllForwardings", "yes")
	set("PermitLocalCommand", "no")
	set("RemoteCommand", "none")
	set("EscapeChar", "none")
	set("LogLevel", "ERROR")
	set("ConnectTimeout", connectTime)
	set("ServerAliveInterval", aliveTime)
	set("ServerAliveCountMax", aliveCount)
	// One connection carries all commands. The path is relative to where ssh runs, since a socket's name is short.
	set("ControlMaster", "auto")
	set("ControlPath", "./"+r.name)
	set("ControlPersist", lingerTime)
	if r.reach.Identity != "" {
		set("IdentitiesOnly", "yes")
		args = append(args, "-i", r.reach.Identity)
	}
	if r.reach.Port != 0 {
		args = append(args, "-p", strconv.Itoa(r.reach.Port))
	}
	if r.reach.User != "" {
		args = append(args, "-l", r.reach.User)
	}
	return append(args, "--", r.reach.Host)
}

// order is a command for a board: lines of a POSIX shell, which has the arguments as $1 and so on.
type order struct {
	script string
	args   []string
	input  io.Reader     // nil: nothing
	time   time.Duration // 0: as long as the context
	most   int           // bytes of what it says; 0: maxSaid
}

// command returns the text that the board's login shell gets, whichever it is: one line of words in quotes.
func (o *order) command() (string, error) {
	words := []string{"exec sh -c", "", "chivelab"}
	var err error
	for i, w := range append([]string{"echo " + begun + "; " + o.script}, o.args...) {
		q, err2 := quote(w)
		if i == 0 {
			words[1] = q
		} else {
			words = append(words, q)
		}
		err = errors.Join(err, err2)
	}
	return strings.Join(words, " "), err
}

// quote puts a word in quotes in which shells change nothing. A word with an end of a line, which some shells take even
// there, or with a NUL, is refused.
func quote(w string) (string, error) {
	if strings.ContainsAny(w, "\x00\r\n") {
		return "", fault.New(fault.Config, "%q cannot be a word of a command", w)
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'", nil
}

// do runs a command on the board, and returns what it says.
func (r *remote) do(ctx context.Context, o order) ([]byte, error) {
	text, err := o.command()
	if err != nil {
		return nil, err
	}
	path, err := exec.LookPath("ssh")
	if err != nil {
		return nil, fault.New(fault.Config, "%w: %w", errUnreached, err)
	}
	if o.time > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.time, fmt.Errorf("the board did not answer within %v", o.time))
		defer cancel()
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if o.most == 0 {
		o.most = maxSaid
	}
	out, errs := &limited{most: o.most + len(begun) + maxSaid, full: stop}, &limited{most: maxSaid, full: stop}
	cmd := exec.CommandContext(ctx, path, append(r.options(), text)...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = r.sockets, o.input, out, errs
	cmd.WaitDelay = time.Second // the connection that stays may hold them
	apart(cmd)
	err = cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}
	said, isBegun := out.after(begun)
	if err == nil && isBegun && ctx.Err() == nil {
		return said, nil
	}
	return nil, r.why(ctx, err, isBegun, said, errs.kept)
}

// why says why a command failed.
func (r *remote) why(ctx context.Context, err error, isBegun bool, said, errs []byte) error {
	if ctx.Err() != nil {
		if errors.Is(context.Cause(ctx), errTooMuch) {
			return fault.Wrap(fault.Protocol, context.Cause(ctx))
		}
		return fault.Ended(ctx, "%w", context.Cause(ctx))
	}
	text := strings.TrimSpace(tail(errs))
	if text == "" {
		text = strings.TrimSpace(tail(said))
	}
	if text == "" && err != nil {
		text = err.Error()
	}
	var exit *exec.ExitError
	switch {
	case err == nil: // it did something else than the command
		return fault.New(fault.Protocol, "the board does not run commands: it says %q", text)
	case !errors.As(err, &exit):
		return fault.New(fault.Local, "%w: ssh: %w", errUnreached, err)
	case exit.ExitCode() == 255 && isBegun: // no command of this program ends so
		return fault.New(fault.Network, "the connection to the board broke: %s", text)
	case strings.Contains(text, "Host key verification failed"), strings.Contains(text, "IDENTIFICATION HAS CHANGED"):
		return fault.New(fault.Refused, "%w: its host key is not one that %s has for it: %s", errUnreached, r.keysFile(), lineWith(text, "strict checking"))
	case strings.Contains(text, "Permission denied (") && exit.ExitCode() == 255:
		return fault.New(fault.Refused, "%w: it does not let this user in with this key: %s", errUnreached, text)
	case exit.ExitCode() == 255:
		return fault.New(fault.Network, "%w: %s", errUnreached, text)
	case strings.Contains(text, "No space left on device"):
		return fault.New(fault.Resource, "its disk is full: %s", text)
	}
	return fault.New(fault.Local, "%s", strings.TrimPrefix(text, "chivelab: "))
}

// lineWith returns the first line that has some words, or all.
func lineWith(text, words string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, words) {
			return strings.TrimSpace(line)
		}
	}
	return text
}

func (r *remote) keysFile() string {
	if r.knownHosts != "" {
		return r.knownHosts
	}
	return "ssh's known_hosts"
}

// leave ends the connection. There may be none.
func (r *remote) leave(ctx context.Context) {
	path, err := exec.LookPath("ssh")
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, quickTime)
	defer cancel()
	args := r.options()
	cmd := exec.CommandContext(ctx, path, append(append([]string{}, args[:len(args)-2]...), "-O", "exit", "--", r.reach.Host)...)
	cmd.Dir = r.sockets
	apart(cmd)
	_ = cmd.Run() // it says so if there is none
}

// errTooMuch ends a command that says more than it may.
var errTooMuch = errors.New("the board says more than it may")

// limited keeps what is written, up to a bound, and calls full beyond.
type limited struct {
	kept []byte
	most int
	full func(error)
}

func (l *limited) Write(b []byte) (int, error) {
	if len(l.kept)+len(b) > l.most {
		l.full(errTooMuch)
		return 0, errTooMuch
	}
	l.kept = append(l.kept, b...)
	return len(b), nil
}

// after returns what follows the line mark, and whether there is one.
func (l *limited) after(mark string) ([]byte, bool) {
	before, rest, ok := bytes.Cut(l.kept, []byte(mark+"\n"))
	if !ok {
		return before, false
	}
	return rest, true
}
