package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/devp2p/internal/ethnode"
	"github.com/chivenet/chive/devp2p/internal/ethnode/broadcast"
	"github.com/chivenet/chive/devp2p/internal/peers"
	"github.com/chivenet/chive/program"
)

// socketName is the Unix socket of a running relay or sidecar, in its data directory. Other users
// cannot open it.
const socketName = "status.sock"

// maxStatus bounds what chive-eth status reads, in bytes.
const maxStatus = 16 << 20

// relayStatus is what a relay tells of itself.
type relayStatus struct {
	Policy  string             `json:"policy"`
	Since   time.Time          `json:"since"`
	Record  string             `json:"record,omitempty"` // this node's ENR
	RPC     string             `json:"rpc,omitempty"`
	Node    ethnode.Status     `json:"node"`
	Peers   []peers.PeerStatus `json:"peers"`
	Private []broadcast.Status `json:"private"` // the user's own transactions
}

func (r *relay) status() relayStatus {
	s := relayStatus{
		Policy: string(r.policy), Since: r.began, RPC: r.rpc,
		Node: r.node.Status(), Peers: r.manager.Status(), Private: r.queue.Status(),
	}
	if self := r.manager.Self(); self != nil {
		s.Record = self.String()
	}
	return s
}

// serveStatus listens on the socket in the data directory.
func serveStatus(dir string, status func() any) (func(context.Context) error, error) {
	path := filepath.Join(dir, socketName)
	l, err := program.ListenUnix(path)
	if err != nil {
		return nil, fmt.Errorf("the socket for chive-eth status: %w", err)
	}
	return serveHTTP(l, "/status", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		text, err := json.Marshal(status())
		if err != nil {
			http.Error(w, "it cannot be encoded", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write(append(text, '\n')) // an error means that who asked has gone
	})), nil
}

// serveHTTP returns a service that answers one path.
func serveHTTP(l net.Listener, path string, h http.Handler) func(context.Context) error {
	mux := http.NewServeMux()
	mux.Handle("GET "+path, h)
	server := &program.HTTPServer{Handler: mux, Guard: program.Guard{Loopback: true}, Name: path}
	return func(ctx context.Context) error { return server.Serve(ctx, l) }
}

func statusCommand() *cobra.Command {
	var dir string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what a running relay or sidecar does, and why each peer is reached as it is",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := dataDir(dir)
			if err != nil {
				return err
			}
			raw, err := readStatus(cmd.Context(), filepath.Join(dir, socketName))
			if err != nil {
				return err
			}
			if asJSON {
				_, err := cmd.OutOrStdout().Write(raw)
				return err
			}
			var s struct {
				relayStatus
				Sidecar *sidecarStatus `json:"sidecar"`
			}
			if err := json.Unmarshal(raw, &s); err != nil {
				return err
			}
			if s.Sidecar != nil {
				return s.Sidecar.print(cmd.OutOrStdout())
			}
			return s.print(cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&dir, "data-dir", "", "the data `DIR` of the relay or the sidecar (default ~/.chive-eth)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// readStatus asks a running relay.
func readStatus(ctx context.Context, socket string) ([]byte, error) {
	client := http.Client{
		Timeout: 15 * time.Second,
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}},
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/status", nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("nobody answers at %s: does chive-eth relay or sidecar run with this data directory? (%w)", socket, program.Why(err))
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers: %s", resp.Status)
	}
	return io.ReadAll(io.LimitReader(resp.Body, maxStatus))
}

// printRules writes which class goes by which peers, if there is a rule.
func (s *relayStatus) printRules(b *bytes.Buffer) {
	if !slices.ContainsFunc(s.Node.Rules, func(r ethnode.ClassStatus) bool { return r.Way != ethnode.ByAny }) {
		return
	}
	fmt.Fprintf(b, "\nclasses\n")
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, r := range s.Node.Rules {
		fmt.Fprintf(t, "  %s\t%s\t%d peers\t%d kept back\n", r.Class, r.Way, r.Peers, r.Barred)
	}
	t.Flush()
}

// print writes the status for people.
func (s *relayStatus) print(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "policy      %s, since %s\n", s.Policy, s.Since.Format(time.DateTime))
	if s.Record != "" {
		fmt.Fprintf(&b, "record      %s\n", s.Record)
	}
	switch n := s.Node; {
	case n.Network == 0:
		fmt.Fprintf(&b, "chain       not decided: too few peers have told it\n")
	case n.Learnt:
		fmt.Fprintf(&b, "chain       network %d, as most peers tell\n", n.Network)
	default:
		fmt.Fprintf(&b, "chain       network %d, genesis %s\n", n.Network, n.Genesis)
	}
	if h := s.Node.Head; h != nil {
		fmt.Fprintf(&b, "newest      block %d of %s\n", h.Number, h.Time.Format(time.DateTime))
	} else {
		fmt.Fprintf(&b, "newest      no peer has told a block yet\n")
	}
	fmt.Fprintf(&b, "pool        %d transactions, %d bytes; %d came in, %d were refused, %d were mined\n", s.Node.Pool.Count, s.Node.Pool.Bytes, s.Node.Accepted, s.Node.Refused, s.Node.Pool.Mined)
	for _, c := range slices.Sorted(maps.Keys(s.Node.Passed)) {
		if s.Node.Passed[c]+s.Node.Empty[c] > 0 {
			fmt.Fprintf(&b, "%-12s%d requests answered, %d without an answer\n", c, s.Node.Passed[c], s.Node.Empty[c])
		}
	}
	s.printRules(&b)
	if len(s.Private) > 0 {
		fmt.Fprintf(&b, "\nown transactions\n")
		t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		for _, p := range s.Private {
			fmt.Fprintf(t, "  %s\t%s\t%s\n", p.Hash.TerminalString(), strings.ToUpper(string(p.State)), p.Why)
		}
		t.Flush()
	}
	fmt.Fprintf(&b, "\npeers\n")
	byID := make(map[string]ethnode.PeerStatus)
	for _, p := range s.Node.Peers {
		byID[p.ID.String()] = p
	}
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, p := range s.Peers {
		way := "address"
		if p.Onion {
			way = "onion"
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\n", p.ID.TerminalString(), p.State, way, cmp.Or(p.Why, "-"), p.Problem)
		if e, ok := byID[p.ID.String()]; ok {
			for _, c := range slices.Sorted(maps.Keys(e.Classes)) {
				fmt.Fprintf(t, "  \t  %s\t%s\t\t\n", c, e.Classes[c])
			}
		}
	}
	t.Flush()
	if len(s.Peers) == 0 {
		fmt.Fprintf(&b, "  none is known\n")
	}
	_, err := w.Write(b.Bytes())
	return err
}
