package torrc

import (
	"slices"
	"strings"

	"github.com/chivenet/chive/internal/fault"
)

// severities are C tor's, by what they are called here.
var severities = map[string]string{"debug": "debug", "info": "debug", "notice": "info", "warn": "warn", "err": "error"}

// LogTarget returns the least level that a line "Log SEVERITY... TARGET" names, in Chive's words, and where
// its log goes: "stdout", "stderr", "syslog" or "file PATH"; empty: where it goes without one.
func LogTarget(value string) (level, to string, err error) {
	level, to, err = logLine(value)
	if file, ok := logFile(value); ok {
		to = "file " + file
	}
	return level, to, err
}

// logLine splits the value of a Log line: severities, each perhaps after the domains that
// it is for, and where the log goes. It returns the least severity.
func logLine(s string) (level, to string, err error) {
	order := []string{"debug", "info", "warn", "error"}
	for to = strings.TrimSpace(s); to != ""; to = strings.TrimLeft(to, " \t") {
		if to[0] == '[' {
			_, after, ok := strings.Cut(to, "]")
			if !ok {
				return "", "", fault.New(fault.Config, "%q does not end", to)
			}
			to = after
			continue
		}
		word, after := to, ""
		if i := strings.IndexAny(to, " \t"); i >= 0 {
			word, after = to[:i], to[i:]
		}
		least, _, _ := strings.Cut(strings.ToLower(word), "-")
		l, ok := severities[least]
		if !ok && level != "" {
			break
		}
		if !ok {
			return "", "", fault.New(fault.Config, "%q is no severity", word)
		}
		if level == "" || slices.Index(order, l) < slices.Index(order, level) {
			level = l
		}
		to = after
	}
	if level == "" {
		return "", "", fault.New(fault.Config, "no severity")
	}
	return level, to, nil
}

// logLevel takes the least severity, wherever it goes.
func logLevel(s string) ([]string, string, error) {
	level, to, err := logLine(s)
	if err != nil {
		return nil, "", err
	}
	note := ""
	if _, isFile := logFile(s); !isFile && to != "" && !strings.EqualFold(to, "stdout") && !strings.EqualFold(to, "stderr") {
		note = "the log does not go to " + to
	}
	return []string{level}, note, nil
}

// logFile returns the file of a line "Log SEVERITY file FILE".
func logFile(s string) (string, bool) {
	_, to, err := logLine(s)
	if err != nil || len(to) < len("file ") || !strings.EqualFold(to[:4], "file") || !strings.ContainsAny(to[4:5], " \t") {
		return "", false
	}
	return strings.Trim(strings.TrimSpace(to[5:]), `"`), true
}
