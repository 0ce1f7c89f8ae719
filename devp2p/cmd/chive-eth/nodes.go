package main

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/ethereum/go-ethereum/p2p/enode"

	"github.com/chivenet/chive/devp2p/internal/find"
	"github.com/chivenet/chive/devp2p/internal/nodelist"
	"github.com/chivenet/chive/program"
)

const nodesLong = `Make, check and join signed lists of nodes that have onions: what a new node begins with.

A publisher makes a key once (nodes key), and signs a list of records with it (nodes make), which
it puts into a file or on a web server. Others give the list and the publisher's public key to a
relay or a sidecar, by --nodes and --nodes-key. A list says when it was made and when it ends, and
is refused as a whole if anything in it is wrong.

The records are those that chive-eth status and the sidecar call "record". Each is signed by its
node, so that a publisher can leave nodes out, but change none.`

const nodesExample = `  chive-eth nodes key publisher.key
  chive-eth nodes make --key publisher.key records.txt > onions.list
  chive-eth nodes verify --nodes-key 5f... onions.list
  chive-eth nodes merge --key publisher.key --nodes-key 5f... --nodes-key a0... one.list two.list > both.list
  chive-eth relay --network mainnet --nodes onions.list --nodes-key 5f...`

func nodesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "nodes",
		Short:   "Make, check and join signed lists of nodes",
		Long:    nodesLong,
		Example: nodesExample,
	}
	cmd.AddCommand(nodesKeyCommand(), nodesMakeCommand(), nodesVerifyCommand(), nodesMergeCommand())
	return cmd
}

func nodesKeyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "key FILE", Short: "Make a key that signs lists, and print its public half",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := nodelist.MakeKey(args[0])
			if err != nil {
				return program.Why(err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%x\n", key.Public())
			return err
		},
	}
}

// signing are the flags of commands that sign a list.
type signing struct {
	keys  []string
	valid time.Duration
}

func (s *signing) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&s.keys, "key", nil, "sign with the key in a `FILE` of chive-eth nodes key (can be given several times)")
	f.DurationVar(&s.valid, "valid", 30*24*time.Hour, "how `LONG` the list is valid: 8784h at most")
}

// write signs and prints a list.
func (s *signing) write(cmd *cobra.Command, nodes []*enode.Node) error {
	if len(s.keys) == 0 {
		return errors.New("--key is needed: a file of chive-eth nodes key")
	}
	var keys []ed25519.PrivateKey
	for _, path := range s.keys {
		key, err := nodelist.ReadKey(path)
		if err != nil {
			return fmt.Errorf("--key: %w", err)
		}
		keys = append(keys, key)
	}
	list, err := nodelist.New(nodes, time.Now(), s.valid)
	if err != nil {
		return err
	}
	text, err := list.Sign(keys...)
	if err != nil {
		return err
	}
	_, err = cmd.OutOrStdout().Write(text)
	return err
}

func nodesMakeCommand() *cobra.Command {
	s := new(signing)
	cmd := &cobra.Command{
		Use: "make --key FILE NODE...", Short: "Sign a list of records, which are given, or in files with one in each line",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			nodes, err := find.Nodes(args)
			if err != nil {
				return err
			}
			return s.write(cmd, nodes)
		},
	}
	s.flags(cmd)
	return cmd
}

func nodesVerifyCommand() *cobra.Command {
	var t trusting
	cmd := &cobra.Command{
		Use: "verify --nodes-key KEY LIST...", Short: "Check the signatures and the records of lists",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			lists, err := t.read(args)
			if err != nil {
				return err
			}
			for i, l := range lists {
				if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: %d nodes, published %s, ends %s\n", args[i], len(l.Nodes),
					l.Published.Format(time.RFC3339), l.Expires.Format(time.RFC3339)); err != nil {
					return err
				}
			}
			return nil
		},
	}
	t.flags(cmd)
	return cmd
}

func nodesMergeCommand() *cobra.Command {
	var t trusting
	s := new(signing)
	cmd := &cobra.Command{
		Use: "merge --key FILE --nodes-key KEY LIST...", Short: "Sign one list of the nodes of several, with the newest record of each",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			lists, err := t.read(args)
			if err != nil {
				return err
			}
			var all []*enode.Node
			for _, l := range lists {
				all = append(all, l.Nodes...)
			}
			return s.write(cmd, all)
		},
	}
	s.flags(cmd)
	t.flags(cmd)
	return cmd
}

// whatToGive tells who knows nobody what to give.
const whatToGive = "Give a node to begin with: --static NODE (what chive-eth status or a sidecar calls its record), --nodes LIST with --nodes-key KEY, --tree URL"

// trusting is whose lists are read: flags that several commands share.
type trusting struct {
	keys []string
}

func (t *trusting) flags(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&t.keys, "nodes-key", nil, "the public `KEY` of somebody whose signed lists are read (can be given several times)")
}

// trusted returns the keys.
func (t *trusting) trusted() ([]ed25519.PublicKey, error) {
	if len(t.keys) == 0 {
		return nil, errors.New("--nodes-key is needed: the public key of who signed the list")
	}
	var all []ed25519.PublicKey
	for _, text := range t.keys {
		key, err := nodelist.ParseKey(text)
		if err != nil {
			return nil, fmt.Errorf("--nodes-key: %w", err)
		}
		all = append(all, key)
	}
	return all, nil
}

// read reads lists from files, and verifies them.
func (t *trusting) read(paths []string) ([]*nodelist.List, error) {
	keys, err := t.trusted()
	if err != nil {
		return nil, err
	}
	var all []*nodelist.List
	for _, path := range paths {
		text, err := program.ReadFile(path, nodelist.MaxBytes)
		if err != nil {
			return nil, err
		}
		l, err := nodelist.Verify(text, keys, time.Now())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, l)
	}
	return all, nil
}
