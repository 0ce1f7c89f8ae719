package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/internal/daemon"
	"github.com/chivenet/chive/internal/hsservice"
)

// onionCommand hosts onion services, and makes their keys.
func onionCommand() *cobra.Command {
	c := &cobra.Command{Use: "onion", Short: "Host onion services, and make keys for them and their clients", Args: cobra.NoArgs}
	c.AddCommand(onionServeCommand(), onionBalanceCommand(), onionKeyCommand(), onionClientsCommand())
	return c
}

func onionServeCommand() *cobra.Command {
	var ports []string
	c := processCommand(&cobra.Command{
		Use:   "serve [PORT=TARGET...]",
		Short: "Host onion services",
		Long: `Host an onion service: connections to a virtual port of its address go to a target, which is an IP address with a
port, or "unix:" and the path of a socket. PORT alone stands for the same port of 127.0.0.1. If a port is given several
targets, each connection to it goes to one of them, at random.

With --dir, the service needs no target: it shows the files of a folder at port 80, as a web server does, and needs none
beside it. index.html stands for its directory. Links that lead out of the folder, names that begin with a dot, and
what is no file are not shown, and a directory without index.html is not listed (--dir-list, --dir-dot-files). Answers
have no date and no times of files. To put a new version in place at once, rename another folder to the name, and send SIGHUP.

The key is in --key-dir, in the form of C tor's HiddenServiceDir: a service can move between the two programs, but
only one of them may host it at a time. Everybody who has the file hs_ed25519_secret_key can be the service. Keep a
copy of it in a safe place.
If the folder authorized_clients in it has files *.auth, only those clients can connect (chive onion clients).

A file of --config may have tables [[onion]], each a service of its own, with the options of the group "Onion service";
so may the file of chive proxy.

Standard output has at once a line "onion ADDRESS", and lines "published" and "ready" when clients can connect: then
another circuit has fetched the service's descriptor. If there are several, the name or the number of each follows. The
log goes to standard error. SIGHUP reads the file and the folders authorized_clients again: services come and go,
and those that stay keep their connections. SIGUSR2 lets the program take over that the file of this one has now.`,
		Example: "  chive onion serve --key-dir /var/lib/chive/shop 80=127.0.0.1:8080\n  chive onion serve --key-dir /var/lib/chive/site --dir /srv/site\n  chive onion serve --config /etc/chive/onions.toml",
	}, daemon.NewOnionSettings(&ports), "config", "check", "onion")
	return withArgs(c, &ports)
}

// withArgs has a command put its arguments where its settings look for them.
func withArgs(c *cobra.Command, to *[]string) *cobra.Command {
	c.Args = cobra.ArbitraryArgs
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		*to = args
		return run(c, nil)
	}
	return c
}

func onionBalanceCommand() *cobra.Command {
	var backends []string
	return withArgs(processCommand(&cobra.Command{
		Use:   "balance BACKEND.onion...",
		Short: "Give the clients of one address to several onion services",
		Long: `Be the frontend of several onion services, as OnionBalance is: publish, for the address of the key in --key-dir, the
introduction points of the backends. Clients that connect to this address meet one of the backends, and nothing of
what they send comes through the frontend. If it stops, connections go on, and clients can make new ones for up to
three hours.

Each backend must know the address: a Chive service by --master or the file ob_config in its --key-dir, C tor's by
HiddenServiceOnionBalanceInstance and the same file. Its line is "MasterOnionAddress ADDRESS".

A file of --config may have tables [[onion]], each a frontend of its own, with the options of the group "Frontend".`,
		Example: "  chive onion balance --key-dir /var/lib/chive/shop BACKEND1.onion BACKEND2.onion",
	}, daemon.NewBalanceSettings(&backends), "version"), &backends)
}

func onionKeyCommand() *cobra.Command {
	c := &cobra.Command{Use: "key", Short: "Make or show the key of an onion service", Args: cobra.NoArgs}
	show := func(c *cobra.Command, k *hsservice.Key) error {
		_, err := fmt.Fprintln(c.OutOrStdout(), k.Address())
		return err
	}
	c.AddCommand(&cobra.Command{
		Use: "make DIR", Short: "Make a key if DIR has none, and print the address", Args: cobra.ExactArgs(1),
		Example: "  chive onion key make /var/lib/chive/shop",
		RunE: func(c *cobra.Command, args []string) error {
			k, err := hsservice.OpenKey(args[0])
			if err != nil {
				return err
			}
			return show(c, k)
		},
	}, &cobra.Command{
		Use: "show DIR", Short: "Print the address of the key in DIR", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			k, err := hsservice.ReadKey(args[0])
			if err != nil {
				return err
			}
			return show(c, k)
		},
	})
	return c
}
