package daemon

import (
	"io"
	"os"
	"sync"
	"syscall"

	"github.com/chivenet/chive/internal/fault"
)

// logFile is the file of --log-file. Programs such as logrotate rename it and then
// send SIGHUP: reopen makes a new one.
type logFile struct {
	path string
	mu   sync.Mutex // guards what follows
	f    *os.File   // never nil
}

// openLog returns where the log goes: w, or the file if one is named.
func openLog(path string, w io.Writer) (io.Writer, *logFile, error) {
	if path == "" {
		return w, nil, nil
	}
	f, err := openLogFile(path)
	if err != nil {
		return nil, nil, err
	}
	l := &logFile{path: path, f: f}
	return l, l, nil
}

// openLogFile opens a file to append to. It makes a missing one for this user only;
// the permissions of one that is there were its owner's choice. A pipe that nobody reads is
// an error: to wait for a reader would hold up the process and its signals.
func openLogFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	return f, nil
}

// Write implements io.Writer. A line is never split between two files.
func (l *logFile) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.f.Write(b)
}

// reopen opens the file by its name again. After an error, the old one stays in use.
func (l *logFile) reopen() error {
	if l == nil {
		return nil
	}
	f, err := openLogFile(l.path)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.f
	l.f = f
	return old.Close()
}

func (l *logFile) close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.f.Close()
}
