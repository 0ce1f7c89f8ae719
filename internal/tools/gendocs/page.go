package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/internal/command/manual"
)

const pageHead = `# Options

This page comes from the tables of options in the program: do not change it here. Change the tables, and then run
` + "`go run ./internal/tools/gendocs options docs/options.md`. `chive COMMAND --help`" + ` says the same.

A proxy, a relay and an authority take each option as a flag, and by the same name from a TOML file (` + "`--config FILE`" + `).
A flag wins over the file, and the file wins over the default value:

` + "```toml" + `
socks = ["127.0.0.1:9050", "unix:/run/chive/socks"]   # a list; one text alone is a list of one
max-circuit-dirtiness = "5m"                          # a time: 90s, 5m, 1h30m, "2 hours"
max-memory = "512MB"                                  # a size: bytes, or a unit, of which MB is 1024 times KB
num-entry-guards = 2                                  # a number
strict-nodes = true                                   # yes or no
` + "```" + `

A mistake is told with the file, the line and the option, and nothing starts:

` + "```" + `
$ chive config check --config /etc/chive/proxy.toml
chive: /etc/chive/proxy.toml:3: num-entry-guards: 21 is not from 0 to 20
` + "```" + `

` + "`chive config check`, and `chive config check onion`, `relay` and `authority`," + ` look at settings without starting
anything. SIGHUP makes a running process read its file again. Options that are *live* in the tables then take effect at
once; other changes are named in the log and wait for the next start. When the file has a mistake, all settings stay.

A command that is for one task, such as ` + "`chive get`" + `, takes a proxy's file too.
`

// sections are the commands with a section of their own, and what is said before its tables.
var sections = []struct{ path, head string }{
	{"proxy", "A client with ports for other programs. `chive get` has the client's options too, and no ports."},
	{"onion serve", "A client that hosts an onion service: see [onion services](onions.md)."},
	{"onion balance", "A client that is the frontend of onion services: see [onion services](onions.md#several-services-behind-one-address)."},
	{"relay", "A relay, an exit or a bridge."},
	{"authority", "A directory authority."},
	{"fte", "Format-transforming encryption. It takes flags alone, no file; most have the names that fteproxy gives them."},
}

// optionsPage is docs/options.md.
func optionsPage(root *cobra.Command) []byte {
	var b bytes.Buffer
	b.WriteString(pageHead)
	for _, s := range sections {
		c, _, err := root.Find(strings.Fields(s.path))
		if err != nil || c == root {
			panic("gendocs: no command " + s.path)
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", c.CommandPath(), s.head)
		all := manual.Groups(c)
		for _, g := range all {
			if g.Rows || len(all) == 1 { // --config is above
				table(&b, g)
			}
		}
	}
	return b.Bytes()
}

// table writes a group's flags.
func table(b *bytes.Buffer, g manual.Group) {
	if g.Rows {
		fmt.Fprintf(b, "\n### %s\n\n| option | value | default | live | what it does |\n|---|---|---|---|---|\n", g.Title)
	} else {
		fmt.Fprintf(b, "\n| flag | value | default | what it does |\n|---|---|---|---|\n")
	}
	for _, f := range g.Flags {
		value := f.Value
		switch {
		case f.Value == "":
			value = "yes or no"
		case f.List != "":
			value += ", " + f.List
		}
		if f.Limits != "" {
			value += ", " + f.Limits
		}
		cells := []string{"`" + f.Name + "`", value, f.Preset}
		if g.Rows {
			cells = append(cells, map[bool]string{true: "live"}[f.Live])
		} else {
			cells[0] = "`--" + f.Name + "`"
		}
		for _, c := range append(cells, f.Help) {
			b.WriteString("| " + strings.NewReplacer("|", `\|`, "*", `\*`).Replace(c) + " ")
		}
		b.WriteString("|\n")
	}
}
