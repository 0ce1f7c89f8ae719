package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/daemon"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/watch"
)

// statusCommand asks a running proxy, relay or authority for its status.
func statusCommand() *cobra.Command {
	var dir string
	var asJSON, watching bool
	c := &cobra.Command{
		Use:   "status",
		Short: "Show what a running proxy, relay or authority is doing",
		Long: "Show what a running proxy, relay or authority is doing: a proxy's bootstrap, directory, guards and onion services,\n" +
			"a relay's flags in the consensus, circuits and keys, an authority's relays and next vote, and their traffic. It\n" +
			"asks through a socket in the data directory, which only the program's user can open.\n\n" +
			"With --watch it is a page on the terminal that changes every second: bandwidth, circuits and what protects\n" +
			"them, streams without their destinations, guards, onion services and the log. Keys: q ends it, ? shows the others.",
		Example: "  chive status\n  chive status --watch\n  chive status --json --data-dir /var/lib/chive-relay",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if watching && asJSON {
				return fault.New(fault.Config, "give --watch or --json, not both")
			}
			if watching {
				return watch.Run(c.Context(), &watched{dir: dir}, os.Stdin, os.Stdout)
			}
			r, err := readStatus(c.Context(), dir)
			if err != nil {
				return err
			}
			var b bytes.Buffer
			if !asJSON {
				r.Print(&b, time.Now())
			} else if err := json.Indent(&b, append(bytes.TrimSpace(r.Text), '\n'), "", "  "); err != nil {
				return err
			}
			_, err = b.WriteTo(c.OutOrStdout())
			return err
		},
	}
	c.Flags().StringVar(&dir, "data-dir", "", "the program's data `DIR` (default $XDG_STATE_HOME/chive, of a proxy, and then its directory relay)")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().BoolVarP(&watching, "watch", "w", false, "show it on the terminal, every second anew, until the key q")
	return c
}

// readStatus asks the program that uses a data directory; without one, the
// program that uses a default directory.
func readStatus(ctx context.Context, dir string) (*daemon.Report, error) {
	r, _, err := findStatus(ctx, dir, 0)
	return r, err
}

// findStatus is readStatus with the log after a line, and returns the directory.
func findStatus(ctx context.Context, dir string, after uint64) (*daemon.Report, string, error) {
	if dir != "" {
		r, err := daemon.ReadStatusAndLog(ctx, dir, after)
		return r, dir, err
	}
	dir, err := chive.DefaultDataDir()
	if err != nil {
		return nil, "", err
	}
	r, err := daemon.ReadStatusAndLog(ctx, dir, after)
	if err != nil {
		relay := filepath.Join(dir, "relay")
		if r, relayErr := daemon.ReadStatusAndLog(ctx, relay, after); relayErr == nil {
			return r, relay, nil
		}
	}
	return r, dir, err
}

// watched is the program of chive status --watch.
type watched struct {
	dir string       // as given
	at  atomic.Value // of string: the directory of the program that answered last
}

// Read implements watch.Source.
func (w *watched) Read(ctx context.Context, after uint64) (*watch.Snapshot, error) {
	r, dir, err := findStatus(ctx, w.dir, after)
	if err != nil {
		return nil, err
	}
	w.at.Store(dir)
	var text strings.Builder
	r.Print(&text, time.Now())
	return &watch.Snapshot{
		Role: r.Role, Version: r.Version, Client: r.Proxy, Onions: r.Onions, Relay: r.Relay, Authority: r.Authority,
		Text: text.String(), Log: r.Log, LastLine: r.LastLine,
	}, nil
}

// NewIdentity implements watch.Source.
func (w *watched) NewIdentity(ctx context.Context) (time.Duration, error) {
	dir, ok := w.at.Load().(string)
	if !ok {
		return 0, fault.New(fault.Local, "no program has answered yet")
	}
	return daemon.NewIdentity(ctx, dir)
}
