package cli

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/daemon"
)

// proxyCommand runs a client with its front doors.
func proxyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "proxy",
		Short: "Run a client with SOCKS, HTTP CONNECT and DNS doors",
		Long: `Run a Tor client whose doors other programs use: SOCKS 4, 4a and 5, HTTP CONNECT, and DNS.

Standard output has a line for each door, such as "socks 127.0.0.1:9050", and then a line "ready" when
traffic can flow. The log goes to standard error.

SIGTERM and SIGINT let open connections finish and then end; a second signal ends at once. SIGHUP reads
the settings again: the choice of relays, isolation by destination, timeouts, --drain and --log-level take effect,
other changes are named and wait for the next start.`,
		Example: "  chive proxy\n  curl -x socks5h://127.0.0.1:9050 https://check.torproject.org/api/ip",
		Args:    cobra.NoArgs,
	}
	load := proxySettings(c.Flags())
	c.RunE = func(c *cobra.Command, args []string) error {
		s, err := load()
		if err != nil {
			return err
		}
		hangup, stop := signals()
		p := daemon.Proxy{
			Settings: s, Out: c.OutOrStdout(), Err: c.ErrOrStderr(), Hangup: hangup, Stop: stop,
			Reload: func() (*daemon.Settings, error) { return reread(c.Flags(), proxySettings) },
			Open: func(ctx context.Context, cfg chive.Config) (daemon.Client, error) {
				client, err := chive.New(cfg)
				if err != nil {
					return nil, err // not a nil *Client in an interface
				}
				return client, nil
			},
		}
		// The signals above drain; main's would cut.
		return p.Run(context.WithoutCancel(c.Context()))
	}
	return c
}

func proxySettings(fs *pflag.FlagSet) func() (*daemon.Settings, error) { return settings(fs, true) }

// reread reads the settings once more: the flags as they were given, and the
// file as it is now.
func reread[S any](given *pflag.FlagSet, bind func(*pflag.FlagSet) func() (S, error)) (s S, err error) {
	fs := pflag.NewFlagSet("reload", pflag.ContinueOnError)
	load := bind(fs)
	given.Visit(func(f *pflag.Flag) {
		if err != nil {
			return
		}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			again := fs.Lookup(f.Name)
			again.Changed = true
			err = again.Value.(pflag.SliceValue).Replace(list.GetSlice())
			return
		}
		err = fs.Set(f.Name, f.Value.String())
	})
	if err != nil {
		return s, err
	}
	return load()
}
