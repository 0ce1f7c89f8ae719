package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/devp2p/internal/identity"
	"github.com/chivenet/chive/program"
)

const keyNewLong = `Give a node new keys, so that nobody who knew it knows it again.

Others know a node by three names: the ID of the Ethereum node (the enode of geth, or of the
relay), the ID of the sidecar, and the onion. The records of the node tell them together. So
one old name beside two new ones would tell whose they are: this command changes all of them,
or none.

Neither geth nor the sidecar or relay may run meanwhile: the command takes their locks. The
old keys are kept under other names, which it prints. After an interruption (a crash, a power
cut) the sidecar and the relay do not start until the command was repeated, which finishes
the change.

What stays: the nodes in --static and peers.json, which the new node visits as the old one
did, and a name that geth has from --identity. The documents say what follows from that.`

func keyCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "key", Short: "Change the keys by which others know a node"}
	cmd.AddCommand(keyNewCommand())
	return cmd
}

func keyNewCommand() *cobra.Command {
	var cfg identity.Config
	cmd := &cobra.Command{
		Use:   "new",
		Short: "Change the keys of a node, its sidecar and its onion, together",
		Long:  keyNewLong,
		Example: `  chive-eth key new --geth ~/.ethereum       # of a geth and the sidecar beside it
  chive-eth key new --data-dir /srv/relay    # of a relay`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return keyNew(cmd, cfg) },
	}
	f := cmd.Flags()
	f.StringVar(&cfg.Geth, "geth", "", "geth's data `DIR`, if there is a sidecar beside a geth")
	f.StringVar(&cfg.NodeKey, "node-key", "", "the `FILE` that geth has by its flag --nodekey, or the relay by --node-key (default: where they keep it by themselves)")
	f.StringVar(&cfg.Dir, "data-dir", "", "the `DIR` of the sidecar or relay (default ~/.chive-eth)")
	return cmd
}

func keyNew(cmd *cobra.Command, cfg identity.Config) (err error) {
	if err := cfg.Check(); err != nil {
		return err
	}
	dir, err := dataDir(cfg.Dir)
	if err != nil {
		return err
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) { // locking it would make it
		return fmt.Errorf("--data-dir: no relay or sidecar has used %s, so there is nothing to change", dir)
	}
	lock, err := lockOwn(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	cfg.Dir, cfg.Now = dir, time.Now()
	res, err := identity.New(cfg)
	if err != nil {
		return program.Why(err)
	}
	out := cmd.OutOrStdout()
	if res.Finished {
		fmt.Fprintln(out, "finished an interrupted change")
	}
	fmt.Fprintf(out, "node %s\nonion %s\n", res.Node, res.Onion)
	for _, k := range res.Kept {
		if _, err := fmt.Fprintf(out, "kept %s\n", k); err != nil {
			return err
		}
	}
	return nil
}
