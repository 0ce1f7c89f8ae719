package tord

import (
	"log/slog"
	"slices"
	"strings"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/torrc"
)

// commandLine is tor's command line (tor(1), "command-line options").
type commandLine struct {
	file, defaults string // torrc files; empty: the usual one, and none
	named          bool   // -f was given
	missingOK      bool
	quiet          slog.Level
	action         action
	argument       string // of the action
	options        []torrc.Line
}

// action is what the command line asks for.
type action uint8

const (
	runProgram action = iota
	showVersion
	showHelp
	hashPassword
	verifyConfig
	dumpConfig
	listOptions
	listFingerprint
)

// never is above every level: nothing is logged.
const never = slog.Level(100)

// flags are the words of tor's command line that are no options of the torrc. A later word for quietness counts.
var flags = map[string]struct {
	argument bool
	set      func(c *commandLine, argument string)
}{
	"-f":                        {true, func(c *commandLine, a string) { c.file, c.named = a, true }},
	"--torrc-file":              {true, func(c *commandLine, a string) { c.file, c.named = a, true }},
	"--defaults-torrc":          {true, func(c *commandLine, a string) { c.defaults = a }},
	"--ignore-missing-torrc":    {false, func(c *commandLine, _ string) { c.missingOK = true }},
	"--allow-missing-torrc":     {false, func(c *commandLine, _ string) { c.missingOK = true }},
	"--hush":                    {false, func(c *commandLine, _ string) { c.quiet = max(c.quiet, slog.LevelWarn) }},
	"--quiet":                   {false, func(c *commandLine, _ string) { c.quiet = never }},
	"--version":                 {false, func(c *commandLine, _ string) { c.action = showVersion }},
	"-h":                        {false, func(c *commandLine, _ string) { c.action = showHelp }},
	"--help":                    {false, func(c *commandLine, _ string) { c.action = showHelp }},
	"--hash-password":           {true, func(c *commandLine, a string) { c.action, c.argument = hashPassword, a }},
	"--verify-config":           {false, func(c *commandLine, _ string) { c.action = verifyConfig }},
	"--list-torrc-options":      {false, func(c *commandLine, _ string) { c.action = listOptions }},
	"--dump-config":             {true, func(c *commandLine, a string) { c.action, c.argument = dumpConfig, a }},
	"--list-fingerprint":        {true, func(c *commandLine, a string) { c.action, c.argument = listFingerprint, a }},
	"--list-modules":            {false, nil},
	"--keygen":                  {false, nil},
	"--key-expiration":          {true, nil},
	"--dbg-dump-subsystem-list": {false, nil},
}

// readCommandLine reads the words after the program's name. An option may have "--" before its name, "+" or
// "/" say what tor(1) has them say, and a word after the name is its value.
func readCommandLine(args []string) (*commandLine, error) {
	c := &commandLine{quiet: slog.LevelInfo}
	for i := 0; i < len(args); i++ {
		if f, ok := flags[args[i]]; ok {
			argument := ""
			if f.argument {
				optional := slices.Contains([]string{"--dump-config", "--list-fingerprint"}, args[i])
				if i++; i == len(args) || optional && strings.HasPrefix(args[i], "-") {
					if !optional {
						return nil, fault.New(fault.Config, "Command-line option '%s' with no value. Failing.", args[i-1])
					}
					i--
				} else {
					argument = args[i]
				}
			}
			if f.set == nil {
				return nil, fault.New(fault.Config, "%s is not there: it is for keys, or for tests of C tor", args[i])
			}
			f.set(c, argument)
			switch {
			case c.action == dumpConfig && !slices.Contains([]string{"", "short", "non-builtin", "full"}, c.argument):
				return nil, fault.New(fault.Config, "%s is not an allowed argument to --dump-config: short, non-builtin or full is", c.argument)
			case c.action == listFingerprint && !slices.Contains([]string{"", "rsa", "ed25519"}, c.argument):
				return nil, fault.New(fault.Config, "%s is not an allowed argument to --list-fingerprint: rsa or ed25519 is", c.argument)
			}
			continue
		}
		key := strings.TrimPrefix(args[i], "--")
		l := torrc.Line{File: commandLineName, Number: i + 1}
		l.Key, l.Adds = strings.CutPrefix(key, "+")
		if strings.HasPrefix(key, "-") || l.Key == "" {
			return nil, fault.New(fault.Config, "Unknown option '%s'.  Failing.", args[i])
		}
		if !strings.HasPrefix(l.Key, "/") {
			if i++; i == len(args) {
				return nil, fault.New(fault.Config, "Command-line option '%s' with no value. Failing.", args[i-1])
			}
			l.Value = args[i]
			if len(l.Value) > 1 && l.Value[0] == '"' && l.Value[len(l.Value)-1] == '"' {
				l.Value = l.Value[1 : len(l.Value)-1]
			}
		}
		c.options = append(c.options, l)
	}
	return c, nil
}

// help is what --help prints. Programs know tor by how this begins and ends.
func help() string {
	return "Copyright (c) 2001-2021 of C tor is its authors': this is another program, Chive, with tor's command line.\n" +
		"Its options are those of tor(1), and Chive's docs/control-port.md says which have an effect.\n\n" +
		"tor -f <torrc> [args]\nSee man page for options, or https://www.torproject.org/ for documentation.\n"
}
