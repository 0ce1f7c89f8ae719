package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/daemon"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/fetch"
	"github.com/chivenet/chive/internal/progress"
	"github.com/chivenet/chive/internal/role"
)

// getCommand downloads URLs.
func getCommand() *cobra.Command {
	o := fetch.Options{Retries: 5, ConnectTimeout: 3 * time.Minute}
	quiet := false
	c := &cobra.Command{
		Use:   "get URL...",
		Short: "Download URLs through the network",
		Long: `Download URLs through the network. If a chive proxy or an onion service runs with the data directory, its circuits
carry the download, apart from all other streams; otherwise this command has a client of its own. It uses nothing else.

One URL goes to standard output, or to --output. Several go to files in --output-dir, which is the current
directory without it. The name of such a file is what follows the last slash of the URL, with "_" in place of
characters that some system cannot have in names or that hide the file, and "index.html" if nothing follows. If that
name is taken, .1, .2 and so on is added: only --output replaces a file.

A file gets its name when it is complete. Until then it is NAME.part, and NAME.part.json says which version of the
document it is. If a download fails, both stay, and --continue goes on from there, if the server confirms that the
document is still the same. If a connection breaks, the command tries again by itself (--retries).

It follows up to 10 redirects, but none from https to http.

Exit codes: 0 all is there, 1 failed, 2 a mistake in the arguments, 8 a server answered with an error.`,
		Example: `  chive get https://check.torproject.org/api/ip
  chive get --continue -o image.iso https://example.com/image.iso
  chive get --output-dir pages https://example.com/a.html https://example.com/b.html`,
		Args: cobra.MinimumNArgs(1),
	}
	f := c.Flags()
	f.StringVarP(&o.Out, "output", "o", "", "`FILE` to write to; \"-\" is standard output, also for several URLs")
	f.StringVar(&o.Dir, "output-dir", "", "`DIR` for files that get their names from their URLs")
	f.BoolVarP(&o.Continue, "continue", "c", false, "go on with partial files of an earlier download, and skip complete ones")
	f.StringArrayVarP(&o.Headers, "header", "H", nil, "header `NAME: VALUE` to send; may be repeated")
	f.DurationVar(&o.Timeout, "timeout", 0, "`TIME` for each URL, with all attempts (default: no limit)")
	f.DurationVar(&o.ConnectTimeout, "connect-timeout", o.ConnectTimeout, "`TIME` until a connection is open, with the start of the client; 0: no limit")
	f.IntVar(&o.Retries, "retries", o.Retries, "`NUMBER` of new attempts for each URL after broken connections")
	f.BoolVarP(&quiet, "quiet", "q", false, "show no progress, and tell only errors")
	s := daemon.NewClientSettings()
	load := bind(c, s)
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		if err := load(c.Context()); err != nil {
			return err
		}
		if err := s.Check(); err != nil {
			return err
		}
		if o.Timeout < 0 || o.ConnectTimeout < 0 || o.Retries < 0 {
			return fault.New(fault.Config, "--timeout, --connect-timeout and --retries are not below 0")
		}
		o.URLs, o.Stdout = args, c.OutOrStdout()
		if err := o.Check(); err != nil {
			return err
		}
		terminal := progress.Share(c.ErrOrStderr())
		var end func() error
		if o.Dial, end, err = getDialer(c.Context(), s, terminal, quiet); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, end()) }()
		if !quiet {
			bar := progress.OnTerminal(terminal)
			defer bar.Clear()
			o.Show = func(p fetch.Progress) { bar.Amount(p.Name, p.Have, p.Total, p.Rate) }
			o.Note = func(text string) { fmt.Fprintln(terminal, progress.Printable("chive: get: "+text)) }
		}
		return fetch.Get(c.Context(), o)
	}
	return c
}

// getDialer returns what opens connections: the client that uses the data directory, or
// else a new one. end closes it.
func getDialer(ctx context.Context, s *daemon.Settings, terminal io.Writer, quiet bool) (dial func(context.Context, string, string) (net.Conn, error), end func() error, err error) {
	cfg, err := s.ClientConfig(terminal)
	if err != nil {
		return nil, nil, err
	}
	client, err := chive.New(cfg)
	if errors.Is(err, role.ErrInUse) {
		running, joinErr := s.JoinClient(ctx)
		if joinErr != nil {
			return nil, nil, fault.New(fault.KindOf(joinErr), "the data directory %s is in use, and the download cannot go through the client that uses it: %w", cfg.DataDir, joinErr)
		}
		return running.DialContext, func() error { return nil }, nil
	}
	if err != nil {
		return nil, nil, err
	}
	hide := func() {}
	if !quiet {
		hide = daemon.ShowStart(client, terminal, cfg.Logger)
	}
	return client.DialContext, func() error { hide(); return client.Close() }, nil
}
