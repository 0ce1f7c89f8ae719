package tord

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"

	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/control"
	"github.com/chivenet/chive/internal/daemon"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/tomlfile"
	"github.com/chivenet/chive/internal/torrc"
	"github.com/chivenet/chive/internal/version"
)

// Version is the version of C tor whose control protocol and command line this is, with Chive's name: programs
// compare its numbers, and cut it at "-".
const Version = "0.4.9.11-chive"

// Program is the program tor.
type Program struct {
	Args    []string // without its name
	Stdin   io.Reader
	Stdout  io.Writer
	Signals <-chan os.Signal // those that tor obeys

	// Self is how this process was started: its name and all words after it. RunAsDaemon starts another one so. Without it, nothing
	// runs in the background.
	Self []string
}

// Exit codes, as C tor's.
const (
	exitOK     = 0
	exitFailed = 1
)

// Run runs the program until it is told to end, and returns its exit code. All that it has to say goes to
// standard output.
func (p *Program) Run(ctx context.Context) int {
	l := &logs{out: newLines(p.Stdout)}
	last := answerTime
	defer func() { l.out.endIn(last) }()
	l.use([]target{{level: slog.LevelInfo, to: l.out}})
	defer l.use(nil)
	line, err := readCommandLine(p.Args)
	if err != nil {
		return l.fail(err)
	}
	if text, done := line.answer(); done {
		l.out.put(text)
		return exitOK
	}
	l.use([]target{{level: line.quiet, to: l.out}})
	src := &source{line: line, stdin: p.Stdin}
	parent, err := p.parent(src)
	if err != nil {
		return l.fail(err)
	}
	defer parent.close()
	c, stopped, err := src.readUntil(p.Signals)
	if stopped {
		return exitOK
	}
	if err == nil && line.action == runProgram && parent == nil && c.on(asDaemon) {
		return p.background(l, src)
	}
	if err == nil && src.missing {
		l.notice("Configuration file %q not present, using reasonable defaults.", src.file)
	}
	if err == nil {
		switch line.action {
		case verifyConfig:
			if _, err = planOf(c); err == nil {
				l.out.put("Configuration was valid\n")
				return exitOK
			}
		case dumpConfig:
			l.out.put(c.dump(line.argument == "full"))
			return exitOK
		case listFingerprint:
			var p *plan
			var text string
			c = c.clone()
			c["DisableNetwork"] = []string{"1"}
			if p, err = planOf(c); err == nil && p.relay == nil {
				return l.fail(fault.New(fault.Config, "Clients don't have long-term identity keys. Exiting."))
			}
			if err == nil {
				text, err = p.listIdentity(line.argument, slog.New(handler{l: l}))
			}
			if err == nil {
				l.out.put(text)
				return exitOK
			}
		}
	}
	switch {
	case errors.Is(err, errMissing):
		return l.fail(err)
	case err != nil:
		return l.invalid(err)
	}
	t := &tor{logs: l, log: slog.New(handler{l: l}), src: src, parent: parent, started: time.Now(), told: map[string]bool{}, stop: make(chan string, 1)}
	code := t.run(ctx, c, p.Signals)
	if t.ran {
		last = flushTime
	}
	return code
}

// invalid tells of a configuration that cannot be used.
func (l *logs) invalid(err error) int {
	return l.fail(fault.New(fault.Config, "Failed to parse/validate config: %w", err))
}

// fail tells of an error at the start.
func (l *logs) fail(err error) int {
	l.write(time.Now(), slog.LevelWarn, printable(err.Error()))
	l.write(time.Now(), slog.LevelError, "Reading config failed--see warnings above.")
	return exitFailed
}

// answer returns what the command line asks to print, if that needs no configuration.
func (c *commandLine) answer() (string, bool) {
	switch c.action {
	case showVersion:
		return fmt.Sprintf("Tor version %s.\nThis is Chive %s, which has tor's command line and control protocol.\n", Version, version.String()), true
	case showHelp:
		return help(), true
	case hashPassword:
		return control.HashPassword(c.argument).String() + "\n", true
	case listOptions:
		text := ""
		for _, o := range allOptions() {
			text += o.name + "\n"
		}
		return text, true
	}
	return "", false
}

// source is where the configuration comes from. It is read again when the program is told to.
type source struct {
	line     *commandLine
	stdin    io.Reader
	piped    []byte // what came from standard input
	file     string // the torrc; empty: there is none
	defaults string // what --defaults-torrc named
	included bool   // it includes others
	missing  bool   // it is not there

	once map[string][]byte // of files that can be read only once, such as pipes
}

// readUntil is read, which may wait for a file, until a signal tells the program to end. What waits then, ends
// with the process.
func (s *source) readUntil(signals <-chan os.Signal) (_ conf, stopped bool, _ error) {
	type result struct {
		conf conf
		err  error
	}
	done := make(chan result, 1)
	go func() {
		defer panics.Recover(nil, func(err error) { done <- result{nil, err} })
		c, err := s.read()
		done <- result{c, err}
	}()
	for {
		select {
		case r := <-done:
			return r.conf, false, r.err
		case sig := <-signals:
			if name := signalNames()[sig]; name == "HALT" || name == "SHUTDOWN" {
				return nil, true, nil
			}
		}
	}
}

// errMissing is the error of a torrc that is not there. Programs look for the text.
var errMissing = fault.New(fault.Config, "Unable to open configuration file")

// usualFile is the torrc that C tor reads if none is named.
const usualFile = "/etc/tor/torrc"

// read reads the files and the command line.
func (s *source) read() (conf, error) {
	c := conf{}
	if s.line.defaults != "" {
		if s.defaults == "" {
			path, err := filepath.Abs(s.line.defaults)
			if err != nil {
				return nil, err
			}
			s.defaults = path
		}
		lines, err := s.readFile(s.defaults, true)
		if err != nil {
			return nil, err
		}
		if err := c.add(lines); err != nil {
			return nil, err
		}
	}
	lines, err := s.readMain()
	if err != nil {
		return nil, err
	}
	if err := c.add(lines); err != nil {
		return nil, err
	}
	return c, c.add(s.line.options)
}

func (s *source) readMain() ([]torrc.Line, error) {
	switch {
	case s.line.file == "-":
		if s.piped == nil {
			text, err := io.ReadAll(io.LimitReader(s.stdin, tomlfile.MaxSize+1))
			if err == nil && len(text) > tomlfile.MaxSize {
				err = fault.New(fault.Config, "more than %d bytes", tomlfile.MaxSize)
			}
			if err != nil {
				return nil, fault.New(fault.Config, "torrc: standard input: %w", err)
			}
			s.piped = append([]byte{}, text...)
		}
		lines, _, err := daemon.TorrcOf("standard input", s.piped)
		return lines, err
	case s.line.named:
		if s.file == "" { // a program in the background is in another folder when it reads it again
			path, err := filepath.Abs(s.line.file)
			if err != nil {
				return nil, err
			}
			s.file = path
		}
		return s.readFile(s.file, s.line.missingOK)
	}
	s.file = usualFile
	return s.readFile(usualFile, true)
}

// readFile reads a torrc that may be missing.
func (s *source) readFile(path string, missingOK bool) ([]torrc.Line, error) {
	text, kept := s.once[path]
	if !kept {
		st, err := os.Stat(path)
		if err != nil && (os.IsNotExist(err) || isNotDir(err)) {
			if !missingOK {
				return nil, fault.New(fault.Config, "%w %q.", errMissing, path)
			}
			s.missing = s.missing || path == s.file
			return nil, nil
		}
		if err != nil {
			return nil, fault.Wrap(fault.Config, err)
		}
		if text, err = atomicfile.Read(path, tomlfile.MaxSize); err != nil {
			return nil, fault.New(fault.Config, "torrc: %w", err)
		}
		if !st.Mode().IsRegular() {
			s.keep(path, text)
		}
	}
	lines, _, err := daemon.TorrcOf(path, text)
	for _, l := range lines {
		s.included = s.included || l.File != path
	}
	return lines, err
}

// keep keeps the text of a file that can be read only once.
func (s *source) keep(path string, text []byte) {
	if s.once == nil {
		s.once = map[string][]byte{}
	}
	s.once[path] = text
}

// isNotDir reports whether a part of a path is no folder: programs name such a path to have no torrc.
func isNotDir(err error) bool {
	e, ok := err.(*os.PathError)
	return ok && e.Err == syscall.ENOTDIR
}

// save writes a configuration to the torrc that -f named.
func (s *source) save(c conf, force bool) error {
	switch {
	case !s.line.named || s.line.file == "-":
		return fault.New(fault.Config, "no file was named with -f")
	case s.included && !force:
		return fault.New(fault.Config, "the torrc includes other files")
	}
	text := "# This file was written by Chive's tor for the command SAVECONF.\n\n" + c.text()
	if err := atomicfile.Write(s.file, []byte(text), atomicfile.Secret); err != nil {
		return err
	}
	s.included = false
	return nil
}

// run runs the program with a configuration.
func (t *tor) run(ctx context.Context, c conf, signals <-chan os.Signal) int {
	t.notice("Tor %s (Chive %s) running.", Version, version.String())
	first, err := planOf(c)
	if err != nil {
		return t.logs.invalid(err)
	}
	if err := becomeUser(c.one("User"), c.keepsBinding()); err != nil {
		return t.logs.fail(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t.ctx = ctx
	t.server = control.New(control.Config{Engine: t, Steering: t, Log: t.log, Version: Version, Secrets: t.secrets})
	tell := t.logEvent
	t.event.Store(&tell)
	if err = t.start(first); err == nil {
		err = t.parent.release(first.dataDir, t.out)
	}
	if err != nil {
		if errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EACCES) {
			t.write(time.Now(), slog.LevelWarn, printable(err.Error()))
			err = fault.New(fault.Local, "Failed to bind one of the listener ports.")
		}
		t.logs.fail(err)
	} else {
		t.ran = true
		t.wg.Go(panics.Contain(t.log, nil, t.everySecond))
		t.tellSystemd(t.parent.ready())
		t.follow(signals)
		t.tellSystemd(systemd.SdNotifyStopping)
	}
	cancel()
	if closed := t.close(); closed != nil {
		t.log.Error("not all was saved at the end", "err", closed)
		err = closed
	}
	if err != nil {
		return exitFailed
	}
	return exitOK
}

// tellSystemd sends a state to systemd, if that has started the program. It is ready before it is connected, as C tor.
func (t *tor) tellSystemd(state string) {
	if _, err := systemd.SdNotify(false, state); err != nil {
		t.log.Warn("systemd was not told", "state", state, "err", err)
	}
}

// follow waits until the program is told to end.
func (t *tor) follow(signals <-chan os.Signal) {
	for {
		select {
		case <-t.ctx.Done():
			return
		case why := <-t.stop:
			t.notice("%s", why)
			return
		case s := <-signals:
			t.process(s)
		}
	}
}
