package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/internal/daemon"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hsservice"
)

// onionClientsCommand says which clients may use an onion service.
func onionClientsCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "clients", Short: "Say which clients may use an onion service", Args: cobra.NoArgs,
		Long: `Say which clients may use the onion service with its key in DIR: those with a file authorized_clients/NAME.auth there, or
everybody who knows the address if there is no such file. The files are C tor's, so this works for services of C tor, too.`,
	}
	c.AddCommand(onionClientsAdd(), onionClientsList(), onionClientsRemove())
	return c
}

func onionClientsAdd() *cobra.Command {
	var key, output string
	var tell teller
	c := &cobra.Command{
		Use: "add DIR NAME", Short: "Let one more client use the service", Args: cobra.ExactArgs(2),
		Long: `Make a key pair for a client, and write the service's half to authorized_clients/NAME.auth in DIR. From then on nobody
without a key can connect. Standard output has the client's half, once: nothing keeps a copy. Give it to the client in secret. The
client puts it into a file whose name ends in ".auth_private", in the directory of its option --client-onion-auth-dir (C
tor: ClientOnionAuthDir), or for a browser of the Tor Project enters the part after the last colon.

With --output, a new file gets the client's half instead, for its owner's eyes alone. With --key, the client has made the
pair itself: KEY is its public half.

The service takes the change over when it starts again or gets SIGHUP. With --data-dir, the command has the process that hosts
the service do so at once.`,
		Example: `  chive onion clients add /var/lib/chive/shop alice --output alice.auth_private
  chive onion clients add /var/lib/chive/shop bob --key descriptor:x25519:N2NU7BSRL6YODZCYPN4CREB54TYLKGIE2KYOQWLFYC23ZJVCE5DQ`,
		RunE: func(c *cobra.Command, args []string) error {
			if key != "" && output != "" {
				return fault.New(fault.Config, "--output: the client has its half already")
			}
			if err := tell.check(c, args[0]); err != nil {
				return err
			}
			give := func(private string) error {
				_, err := fmt.Fprintln(c.OutOrStdout(), private)
				return err
			}
			if st, err := os.Stat(output); err == nil && st.IsDir() {
				output = filepath.Join(output, args[1]+hsservice.ExtAuthPrivate)
			}
			if output != "" {
				give = hsservice.SavePrivate(output)
			}
			path, err := hsservice.AddClient(args[0], args[1], key, give)
			if err != nil {
				return err
			}
			if output != "" {
				if _, err := fmt.Fprintf(c.OutOrStdout(), "client %s\n", output); err != nil {
					return err
				}
			}
			return tell.say(c, "wrote "+path)
		},
	}
	c.Flags().StringVar(&key, "key", "", "public `KEY` that the client has made: \"descriptor:x25519:\" and base32, or base32 alone")
	c.Flags().StringVar(&output, "output", "", "`FILE` for the client's half, or a directory, in which it is NAME.auth_private")
	tell.flag(c)
	return c
}

func onionClientsList() *cobra.Command {
	return &cobra.Command{
		Use: "list DIR", Short: "Show the names and public keys of the service's clients", Args: cobra.ExactArgs(1),
		Long: `Show a line with the name and the public key of each client of the service in DIR. Files that authorize nobody, because of a
mistake in them or in their names, are named on standard error with the line, and the exit code is 2 then: the
service does not start with them.`,
		Example: "  chive onion clients list /var/lib/chive/shop",
		RunE: func(c *cobra.Command, args []string) error {
			all, err := hsservice.ListClients(args[0])
			if err != nil {
				return err
			}
			var wrong []error
			for _, one := range all {
				if one.Err != nil {
					wrong = append(wrong, one.Err)
					continue
				}
				if _, err := fmt.Fprintln(c.OutOrStdout(), one.Name, hsservice.FormatClient(one.Key)); err != nil {
					return err
				}
			}
			if len(all) == 0 {
				fmt.Fprintln(c.ErrOrStderr(), "no client has a key: everybody who knows the address can connect")
			}
			return fault.Wrap(fault.Config, errors.Join(wrong...))
		},
	}
}

func onionClientsRemove() *cobra.Command {
	var public bool
	var tell teller
	c := &cobra.Command{
		Use: "remove DIR NAME", Short: "Shut a client out of the service", Args: cobra.ExactArgs(2),
		Long: `Remove the file authorized_clients/NAME.auth in DIR. Without any such file everybody who knows the address can connect, so
the last one is removed only with --make-public.

The service takes the change over when it starts again or gets SIGHUP, and until then lets the client in. With --data-dir, the
command has the process that hosts the service do so at once. Chive's service then ends the client's connections.`,
		Example: "  chive onion clients remove /var/lib/chive/shop alice",
		RunE: func(c *cobra.Command, args []string) error {
			if err := tell.check(c, args[0]); err != nil {
				return err
			}
			path, err := hsservice.RemoveClient(args[0], args[1], public)
			if err != nil {
				return err
			}
			return tell.say(c, "removed "+path)
		},
	}
	c.Flags().BoolVar(&public, "make-public", false, "remove the last client, too: everybody who knows the address can connect then")
	tell.flag(c)
	return c
}

// teller has the process that hosts a service take over what a command has changed.
type teller struct{ dataDir string }

func (t *teller) flag(c *cobra.Command) {
	c.Flags().StringVar(&t.dataDir, "data-dir", "", "data `DIR` of the process that hosts the service, which is to take the change over at once")
}

// check looks before the change whether the process hosts the service.
func (t *teller) check(c *cobra.Command, dir string) error {
	if t.dataDir == "" {
		return nil
	}
	k, err := hsservice.ReadKey(dir)
	if err != nil {
		return err
	}
	return daemon.Hosts(c.Context(), t.dataDir, k.Address())
}

// say tells the process of the change, or the user how to do so.
func (t *teller) say(c *cobra.Command, what string) error {
	if t.dataDir == "" {
		_, err := fmt.Fprintln(c.ErrOrStderr(), what+"; the service takes it over when it gets SIGHUP or starts again")
		return err
	}
	if err := daemon.Reload(c.Context(), t.dataDir); err != nil {
		return fault.New(fault.KindOf(err), "%s, but the service has not taken it over: %w", what, err)
	}
	_, err := fmt.Fprintln(c.ErrOrStderr(), what+"; the service has taken it over")
	return err
}
