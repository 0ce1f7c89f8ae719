package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// manPages returns the manual pages of a command and all below it, by their files' names.
func manPages(root *cobra.Command) map[string][]byte {
	pages := map[string][]byte{}
	walk(root, func(c *cobra.Command) { pages[manName(c)+".1"] = manPage(c) })
	return pages
}

// manName is the name of a command's page: chive-config-check(1).
func manName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manPage writes a command's page in the language of man(7).
func manPage(c *cobra.Command) []byte {
	var b bytes.Buffer
	section := func(title string) { fmt.Fprintf(&b, ".SH %s\n", strings.ToUpper(title)) }
	name := manName(c)
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"Chive\" \"Chive manual\"\n", strings.ToUpper(name))
	section("Name")
	fmt.Fprintf(&b, "%s \\- %s\n", roff(name), roff(c.Short))
	section("Synopsis")
	fmt.Fprintf(&b, ".B %s\n", roff(c.UseLine()))
	section("Description")
	long := c.Long
	if long == "" {
		long = c.Short + "."
	}
	for i, p := range strings.Split(long, "\n\n") {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		b.WriteString(roff(p) + "\n")
	}
	if all := groups(c); len(all) > 0 {
		section("Options")
		for _, g := range all {
			if len(all) > 1 {
				fmt.Fprintf(&b, ".SS %s\n", roff(g.title))
			}
			for _, f := range g.flags {
				manFlag(&b, f)
			}
		}
	}
	if c.Example != "" {
		section("Examples")
		fmt.Fprintf(&b, ".nf\n%s\n.fi\n", roff(c.Example))
	}
	if !c.HasParent() {
		section("Exit status")
		b.WriteString("0: it did what it was asked to do. 1: it failed, and may succeed later. 2: what was asked for\n" +
			"has a mistake, such as a wrong option. 3: it was told twice to stop, and cut what was open.\n")
	}
	var related []string
	if c.HasParent() {
		related = append(related, manName(c.Parent()))
	}
	for _, sub := range c.Commands() {
		walk(sub, func(s *cobra.Command) {
			if s.Parent() == c {
				related = append(related, manName(s))
			}
		})
	}
	if len(related) > 0 {
		section("See also")
		for i, r := range related {
			end := ","
			if i == len(related)-1 {
				end = ""
			}
			fmt.Fprintf(&b, ".BR %s (1)%s\n", roff(r), end)
		}
	}
	return b.Bytes()
}

// manFlag writes one flag.
func manFlag(b *bytes.Buffer, f flag) {
	b.WriteString(".TP\n")
	if f.short != "" {
		fmt.Fprintf(b, "\\fB\\-%s\\fR, ", f.short)
	}
	fmt.Fprintf(b, "\\fB%s\\fR", roff("--"+f.name))
	if f.value != "" {
		fmt.Fprintf(b, " \\fI%s\\fR", roff(f.value))
	}
	b.WriteString("\n" + roff(f.help))
	for _, more := range []struct{ what, text string }{{"Values: ", f.limits}, {"More than one: ", f.list}, {"Default: ", f.preset}} {
		if more.text != "" {
			b.WriteString(".\n" + roff(more.what+more.text))
		}
	}
	if f.live {
		b.WriteString(".\nSIGHUP is enough for a change")
	}
	b.WriteString(".\n")
}

// roff writes text so that man(7) shows it as it is.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`, "'", `\(aq`, `"`, `\(dq`).Replace(s)
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}
