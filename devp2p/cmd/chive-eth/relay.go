package main

import (
	"fmt"
	"math/big"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/devp2p/internal/ethnode"
	"github.com/chivenet/chive/program"
)

const relayLong = `Run an Ethereum node without state that other nodes reach by its onion.

The node relays transactions, and passes requests for headers, block bodies and receipts on
to peers that have them. It executes nothing, stores no blocks, and needs no consensus
client. It speaks eth/69 to eth/71 with unmodified nodes.

Peers are reached by a policy (--policy):
  only-onion     by onions only; nothing leaves this machine outside Tor (the default)
  prefer-onion   by a peer's onion, or by its address if it has none or does not answer
  adaptive       by what was measured to be faster
  clearnet       by addresses only, for comparison

With the policies between only-onion and clearnet, --classes says which messages go by which
of the peers. Bulk by addresses, while transactions and their hashes go by onions only:
--policy prefer-onion --classes gossip=onion,bulk=clearnet

Wallets on this machine can send transactions with --rpc. The node gives each one to onion
peers on a connection that is used for nothing else, until it is seen back from others. If
there is no onion peer, it is held; it never leaves by an address, whatever the policy.
A transaction's state: chive-eth status, or the method chive_transaction.

A wallet also asks for nonces, balances and fees, which need the chain's state. Name a node
that has it with --rpc-upstream: the IPC socket of your own, an https URL, or an onion. It is
reached through Tor, over circuits of its own for each account, and gets no transaction.

The chain is named by --network or --genesis. Without them, the node learns it from its
first peers, and is as right as most of these.`

const relayExample = `  # A node of mainnet that is only reachable, and only reaches others, by onions
  chive-eth relay --network mainnet --static enr:-... --rpc 127.0.0.1:8545

  # For wallets: they send by this node, and read from another one, through Tor
  chive-eth relay --network mainnet --static enr:-... --rpc 127.0.0.1:8545 --rpc-upstream https://node.example/

  # A node with a Tor daemon that runs already
  chive-eth relay --network mainnet --tor-proxy 127.0.0.1:9050

  # A private network of Ethereum nodes, on a private network of Tor relays
  chive-eth relay --genesis genesis.json --network tor-network.toml`

// relaySettings are the flags of chive-eth relay.
type relaySettings struct {
	tor
	finding
	wallets
	networks  []string // names of Ethereum networks, and files of Tor networks
	genesis   string
	networkID uint64
	dataDir   string
	nodeKey   string
	onionPort int
	listen    string
	maxPeers  int
	static    []string
	trusted   []string
	boot      []string
	metrics   string
	minTip    uint64
	noBlobs   bool
	poolBytes int
	classes   string
	verbose   bool
}

func relayCommand() *cobra.Command {
	s := new(relaySettings)
	cmd := &cobra.Command{
		Use:     "relay",
		Short:   "Run a node without state that relays transactions and passes requests on",
		Long:    relayLong,
		Example: relayExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	s.tor.flags(cmd)
	s.finding.flagsOutside(cmd)
	s.wallets.flags(cmd)
	f := cmd.Flags()
	f.StringArrayVar(&s.networks, "network", nil, "the Ethereum `NETWORK`: "+strings.Join(ethnode.Networks(), ", ")+"; or the file of a private Tor network (can be given twice)")
	if err := cmd.RegisterFlagCompletionFunc("network", cobra.FixedCompletions(ethnode.Networks(), cobra.ShellCompDirectiveDefault)); err != nil {
		panic(err) // the flag is above
	}
	f.StringVar(&s.genesis, "genesis", "", "the genesis `FILE` of a private Ethereum network")
	f.Uint64Var(&s.networkID, "networkid", 0, "the network `ID`, if it is not the genesis' chain ID")
	f.StringVar(&s.dataDir, "data-dir", "", "the `DIR` for keys, peers and waiting transactions (default ~/.chive-eth)")
	f.StringVar(&s.nodeKey, "node-key", "", "the `FILE` of the node's key, in hexadecimal (default: nodekey in the data directory, made if missing)")
	f.IntVar(&s.onionPort, "listen", 30303, "the `PORT` of this node's onion; 0: no onion, and nobody connects to this node")
	f.StringVar(&s.listen, "listen-addr", "", "an `ADDR` to listen on outside Tor, such as 127.0.0.1:30303; only-onion takes loopback only")
	f.IntVar(&s.maxPeers, "maxpeers", 50, "the largest `NUMBER` of peers")
	f.StringArrayVar(&s.static, "static", nil, "a `NODE` to stay connected to: an enode URL, an ENR, or a file with one in each line")
	f.StringArrayVar(&s.trusted, "trusted", nil, "a `NODE` that is let in when all places are taken; as --static")
	f.StringArrayVar(&s.boot, "bootnodes", nil, "a `NODE` to begin with; as --static")
	f.StringVar(&s.metrics, "metrics", "", "serve metrics for Prometheus at an `ADDR` of loopback, such as 127.0.0.1:9188")
	f.Uint64Var(&s.minTip, "min-tip", 0, "relay transactions with at least this `TIP`, in wei for a unit of gas")
	f.BoolVar(&s.noBlobs, "no-blobs", false, "relay no transactions with blobs, which are large")
	f.IntVar(&s.poolBytes, "pool-bytes", 32<<20, "the memory for transactions of others, in `BYTES`")
	f.StringVar(&s.classes, "classes", "", "`RULES` that say which class of messages goes by which peers, such as gossip=onion,bulk=clearnet: CLASS=any, onion or clearnet; a class is "+
		strings.Join(ethnode.Classes, ", ")+", or several: "+strings.Join(ethnode.Groups(), ", ")+" (default all=any)")
	f.BoolVar(&s.verbose, "verbose", false, "log more")
	return cmd
}

// chain returns the chain that the flags name; nil: it is learnt. It finds the file of the
// Tor network, too.
func (s *relaySettings) chain() (*ethnode.Chain, error) {
	name := ""
	for _, v := range s.networks {
		switch {
		case slices.Contains(ethnode.Networks(), v) && name == "":
			name = v
		case slices.Contains(ethnode.Networks(), v):
			return nil, fmt.Errorf("--network: two Ethereum networks: %s and %s", name, v)
		case s.networkFile != "":
			return nil, fmt.Errorf("--network: two files: %s and %s", s.networkFile, v)
		default:
			if _, err := os.Stat(v); err != nil {
				return nil, fmt.Errorf("--network %s: it is no Ethereum network (%s), and no file: %w", v, strings.Join(ethnode.Networks(), ", "), program.Why(err))
			}
			s.networkFile = v
		}
	}
	switch {
	case name != "" && s.genesis != "":
		return nil, fmt.Errorf("--network %s and --genesis exclude each other", name)
	case name != "":
		return ethnode.NamedChain(name)
	case s.genesis != "":
		c, err := ethnode.ReadChain(s.genesis, s.networkID)
		if err != nil {
			return nil, fmt.Errorf("--genesis: %w", err)
		}
		return c, nil
	case s.networkID != 0:
		return nil, fmt.Errorf("--networkid needs --genesis")
	}
	return nil, nil
}

func (s *relaySettings) tip() *big.Int { return new(big.Int).SetUint64(s.minTip) }
