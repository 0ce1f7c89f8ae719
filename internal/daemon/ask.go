package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/socks"
)

// ReadStatus asks the program that uses this data directory for its status.
func ReadStatus(ctx context.Context, dataDir string) (*Report, error) {
	text, err := ask(ctx, dataDir, request{Do: askStatus})
	if err != nil {
		return nil, err
	}
	return parseReport(text)
}

// ReadStatusAndLog is ReadStatus with the lines of the log after a number: Report has the
// number of the last one. 0 is before the first.
func ReadStatusAndLog(ctx context.Context, dataDir string, after uint64) (*Report, error) {
	text, err := ask(ctx, dataDir, request{Do: askStatus, LogAfter: &after})
	if err != nil {
		return nil, err
	}
	return parseReport(text)
}

// AwaitReady waits until the client that uses this data directory can carry traffic.
func AwaitReady(ctx context.Context, dataDir string) error {
	for {
		r, err := ReadStatus(ctx, dataDir)
		switch {
		case err != nil:
			return err
		case r.Proxy == nil:
			return fault.New(fault.Refused, "a %s runs there, and no client", r.Role)
		case r.Proxy.Bootstrap.Ready:
			return nil
		}
		select {
		case <-time.After(askAgain):
		case <-ctx.Done():
			return fault.New(fault.Timeout, "%s: %w", r.Proxy.Bootstrap.Stage, context.Cause(ctx))
		}
	}
}

// askAgain is how long AwaitReady waits between questions.
const askAgain = 250 * time.Millisecond

// NewIdentity asks the client that uses this data directory for a new identity. If it had
// one lately, NewIdentity does nothing, and returns how long to wait before the next.
func NewIdentity(ctx context.Context, dataDir string) (wait time.Duration, err error) {
	r, err := askReply(ctx, dataDir, request{Do: askNewnym})
	return r.Wait, err
}

// Reload has the program that uses this data directory read its settings and files again, as SIGHUP does, and returns
// why it did not, or what of it did not take effect.
func Reload(ctx context.Context, dataDir string) error {
	_, err := askReply(ctx, dataDir, request{Do: askReload})
	return err
}

// Hosts checks that the program that uses this data directory hosts an onion service.
func Hosts(ctx context.Context, dataDir, address string) error {
	r, err := ReadStatus(ctx, dataDir)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(r.Onions, func(o chive.OnionStatus) bool { return o.Address == address }) {
		return fault.New(fault.Config, "the program that runs with the data directory %s does not host this onion service", dataDir)
	}
	return nil
}

func askReply(ctx context.Context, dataDir string, req request) (r reply, err error) {
	text, err := ask(ctx, dataDir, req)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fault.New(fault.Local, "the running program gave no answer that this version understands: %w", err)
	}
	switch {
	case r.Error != "":
		return r, fault.New(fault.Refused, "the running program: %s", r.Error)
	case !r.Done && r.Wait <= 0 && len(r.Differ) == 0:
		return r, fault.New(fault.Local, "the running program is of an earlier version, which cannot do this: start it again")
	}
	return r, nil
}

// ask sends a request to the program that uses a data directory, and returns the answer.
func ask(ctx context.Context, dataDir string, req request) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	c, err := socks.DialUnix(ctx, filepath.Join(dataDir, statusSocket))
	if errors.Is(err, fs.ErrPermission) {
		return nil, fault.New(fault.Local, "only the user that a program runs as, and root, may ask it: %w", err)
	}
	if err != nil {
		return nil, fault.New(fault.Local, "no proxy, relay or authority runs with the data directory %s: %w", dataDir, fault.Why(err))
	}
	defer c.Close()
	defer context.AfterFunc(ctx, panics.Contain(slog.New(slog.DiscardHandler), nil, func() { c.SetDeadline(time.Unix(1, 0)) }))()
	if err := json.NewEncoder(c).Encode(req); err != nil {
		return nil, fault.New(fault.Local, "ask the running program: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(c, maxAnswer))
	if err == nil && len(bytes.TrimSpace(text)) == 0 {
		err = errors.New("it gave no answer: it is ending, or too many ask")
	}
	if err != nil {
		return nil, fault.New(fault.Local, "ask the running program: %w", err)
	}
	return text, nil
}
