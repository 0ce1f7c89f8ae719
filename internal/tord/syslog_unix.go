//go:build unix

package tord

import (
	"io"
	"log/syslog"
	"strings"
)

// toSyslog gives lines of the log to the system's log.
type toSyslog struct{ *syslog.Writer }

func openSyslog() (io.WriteCloser, error) {
	w, err := syslog.New(syslog.LOG_DAEMON|syslog.LOG_NOTICE, "tor")
	if err != nil {
		return nil, err
	}
	return toSyslog{w}, nil
}

func (t toSyslog) Write(b []byte) (int, error) {
	return len(b), severities{t.Err, t.Warning, t.Notice, t.Info}.put(string(b))
}

// severities are what the system's log has for the words of lines.
type severities struct{ err, warn, notice, info func(string) error }

// put takes a line of the log, without its time: the system's log has times of its own.
func (s severities) put(line string) error {
	line = strings.TrimSuffix(line, "\n")
	if i := strings.IndexByte(line, '['); i >= 0 {
		line = line[i:]
	}
	word, _, _ := strings.Cut(line, "]")
	switch word {
	case "[err":
		return s.err(line)
	case "[warn":
		return s.warn(line)
	case "[notice":
		return s.notice(line)
	}
	return s.info(line)
}
