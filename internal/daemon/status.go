package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"sync"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/socks"
)

// The status socket's name inside the data directory, how long either side
// waits for the other, and how much an answer can be.
const (
	statusSocket  = "status.sock"
	statusTimeout = 5 * time.Second
	maxStatus     = 4 << 20
)

// statusServer answers every connection to the status socket with the
// client's status as JSON.
type statusServer struct {
	l  net.Listener
	wg sync.WaitGroup
}

func serveStatus(dataDir string, status func() chive.Status) (*statusServer, error) {
	l, err := socks.ListenUnix(filepath.Join(dataDir, statusSocket))
	if err != nil {
		return nil, err
	}
	s := &statusServer{l: l}
	s.wg.Go(func() {
		for {
			c, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				time.Sleep(100 * time.Millisecond) // out of descriptors: it passes
				continue
			}
			// One at a time: an answer is short and its reader is local.
			c.SetDeadline(time.Now().Add(statusTimeout))
			json.NewEncoder(c).Encode(status())
			c.Close()
		}
	})
	return s, nil
}

func (s *statusServer) close() {
	s.l.Close()
	s.wg.Wait()
}

// ReadStatus asks the proxy that runs with this data directory for its
// status.
func ReadStatus(ctx context.Context, dataDir string) (chive.Status, error) {
	var st chive.Status
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	c, err := new(net.Dialer).DialContext(ctx, "unix", filepath.Join(dataDir, statusSocket))
	if err != nil {
		return st, fault.New(fault.Local, "no proxy runs with the data directory %s: %w", dataDir, err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(statusTimeout))
	if err := json.NewDecoder(io.LimitReader(c, maxStatus)).Decode(&st); err != nil {
		return st, fault.New(fault.Local, "status of the running proxy: %w", err)
	}
	return st, nil
}

// PrintStatus writes a status for people.
func PrintStatus(w io.Writer, st chive.Status, now time.Time) {
	state := "ready"
	if !st.Bootstrap.Ready {
		state = fmt.Sprintf("not ready: %d%%, %s", st.Bootstrap.Percent, st.Bootstrap.Stage)
	}
	fmt.Fprintf(w, "network    %s\nstate      %s\n", st.Network, state)
	if st.Bootstrap.Problem != "" {
		fmt.Fprintf(w, "problem    %s\n", st.Bootstrap.Problem)
	}
	fmt.Fprintf(w, "up         %v\n", now.Sub(st.Started).Round(time.Second))
	if d := st.Directory; !d.ValidAfter.IsZero() {
		fmt.Fprintf(w, "directory  %d relays, %d usable; valid until %s\n", d.Relays, d.Usable, d.ValidUntil.UTC().Format("2006-01-02 15:04:05 MST"))
	}
	fmt.Fprintf(w, "open       %d channels, %d circuits (and %d being built), %d streams\n", st.Channels, st.Circuits, st.Building, st.Streams)
	fmt.Fprintf(w, "traffic    %d bytes read, %d written\n", st.Read, st.Written)
	for _, b := range st.Bridges {
		notes := "its descriptor is here"
		if !b.Usable {
			notes = "not usable yet"
		}
		if b.Problem != "" {
			notes += ": " + b.Problem
		}
		fmt.Fprintf(w, "bridge     %s %s %s (%s)\n", cmp.Or(b.Fingerprint, "unknown"), b.Nickname, cmp.Or(b.Transport, "plain"), notes)
	}
	for _, g := range st.Guards {
		notes := "reachable: " + g.Reachable
		if g.Confirmed {
			notes += ", confirmed"
		}
		if !g.Usable {
			notes += ", not usable now"
		}
		fmt.Fprintf(w, "guard      %s %s (%s)\n", g.Fingerprint, g.Nickname, notes)
	}
}
