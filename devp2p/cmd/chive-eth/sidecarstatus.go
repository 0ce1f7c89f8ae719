package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/chivenet/chive/devp2p/internal/sidecar"
)

// sidecarStatus is what a sidecar tells of itself.
type sidecarStatus struct {
	Since    time.Time `json:"since"`
	Node     bool      `json:"node"`    // it answers at its JSON-RPC
	Private  bool      `json:"private"` // with --only-onion, and nothing leaks
	Leaks    []string  `json:"leaks"`   // what the node shows outside Tor, and how to end that
	Onion    string    `json:"onion,omitempty"`
	Record   string    `json:"record,omitempty"`
	Known    int       `json:"known"`    // nodes that the node could connect to
	Forwards int       `json:"forwards"` // onions that it is told to connect to
	Inbound  int       `json:"inbound"`  // connections that it has over the onion
	Contacts int       `json:"contacts"` // other nodes that speak onr/1 with the sidecar
	Problem  string    `json:"problem,omitempty"`
}

func newSidecarStatus(s sidecar.Status, since time.Time) *sidecarStatus {
	out := &sidecarStatus{Since: since, Node: s.Node, Private: s.Private, Leaks: []string{}, Known: s.Known, Forwards: s.Forwards, Inbound: s.Inbound,
		Contacts: s.Contacts, Problem: s.Problem}
	for _, l := range s.Leaks {
		out.Leaks = append(out.Leaks, l.Text())
	}
	if s.Onion != "" {
		out.Onion = s.Onion.Addr()
	}
	if s.Record != nil {
		out.Record = s.Record.String()
	}
	return out
}

// print writes the status for people.
func (s *sidecarStatus) print(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "sidecar     since %s\n", s.Since.Format(time.DateTime))
	fmt.Fprintf(&b, "node        %s\n", map[bool]string{true: "up", false: "away"}[s.Node])
	fmt.Fprintf(&b, "private     %s\n", map[bool]string{true: "yes", false: "no"}[s.Private])
	for _, l := range s.Leaks {
		fmt.Fprintf(&b, "  %s\n", l)
	}
	fmt.Fprintf(&b, "onion       %s\n", cmp.Or(s.Onion, "none yet"))
	if s.Record != "" {
		fmt.Fprintf(&b, "record      %s\n", s.Record)
	}
	if s.Problem != "" {
		fmt.Fprintf(&b, "problem     %s\n", s.Problem)
	}
	fmt.Fprintf(&b, "peers       %d onions that the node is told of, of %d that are known; %d connections over the onion\n", s.Forwards, s.Known, s.Inbound)
	fmt.Fprintf(&b, "contacts    %d nodes that tell of others (onr/1)\n", s.Contacts)
	_, err := w.Write(b.Bytes())
	return err
}
