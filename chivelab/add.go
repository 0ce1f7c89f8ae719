package main

import (
	"bufio"
	"context"
	"encoding/json"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/internal/cli"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/lab"
)

// printNode says where a node is.
func printNode(c *cobra.Command, n *lab.Node) {
	cli.Printf(c, "node %s %s %s %s\n", n.Name, n.Program, n.Role, n.ORPort+n.SOCKS+n.Onion)
	for _, l := range n.Bridge {
		cli.Printf(c, "bridge %s\n", l)
	}
}

// obey adds nodes as the lines of standard input say, one after the other, until it
// is told to stop. The end of the input does not stop it.
func obey(c *cobra.Command, nw *lab.Network, asJSON bool, ended <-chan error) error {
	lines := make(chan string)
	go func() { // ends with the input, or with the process
		defer panics.Recover(slog.Default(), nil)
		s := bufio.NewScanner(c.InOrStdin())
		for s.Scan() {
			lines <- s.Text()
		}
	}()
	for {
		select {
		case <-c.Context().Done():
			return nil
		case err := <-ended:
			return err
		case line := <-lines:
			if err := command(c, nw, line, asJSON); err != nil {
				return err
			}
		}
	}
}

// command does what a line says, and answers.
func command(c *cobra.Command, nw *lab.Network, line string, asJSON bool) error {
	var n *lab.Node
	word, role, _ := strings.Cut(strings.TrimSpace(line), " ")
	err := fault.New(fault.Config, "%q is no command: it is \"add\" and a role", line)
	if word == "add" {
		n, err = addNode(c, nw, lab.Role(strings.TrimSpace(role)), asJSON)
	}
	switch {
	case asJSON:
		var answer any = n
		if err != nil {
			answer = map[string]string{"error": err.Error()}
		}
		b, err := json.Marshal(answer)
		if err != nil {
			return fault.Wrap(fault.Local, err)
		}
		cli.Printf(c, "%s\n", b)
	case err != nil:
		cli.Printf(c, "error %s\n", strings.ReplaceAll(err.Error(), "\n", "; "))
	default:
		cli.Printf(c, "listed %s\n", n.Name)
	}
	return nil
}

// addNode adds a node and waits until clients can use it.
func addNode(c *cobra.Command, nw *lab.Network, role lab.Role, asJSON bool) (*lab.Node, error) {
	ctx, cancel := context.WithTimeout(c.Context(), labTime)
	defer cancel()
	n, err := nw.Add(ctx, role)
	if err != nil {
		return nil, err
	}
	if !asJSON {
		printNode(c, n)
	}
	return n, nw.WaitListed(ctx, n)
}
