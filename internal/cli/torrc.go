package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/daemon"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/options"
	"github.com/chivenet/chive/internal/tomlfile"
	"github.com/chivenet/chive/internal/torrc"
)

// importRole is a program whose file chive config import writes.
type importRole struct {
	name     string
	role     torrc.Role
	settings func() *daemon.Settings
}

// importRoles are the programs whose files chive config import writes.
var importRoles = []importRole{
	{"proxy", torrc.Proxy, daemon.NewProxySettings},
	{"relay", torrc.Relay, daemon.NewRelaySettings},
	{"authority", torrc.Authority, daemon.NewAuthoritySettings},
}

func importCommand() *cobra.Command {
	var name, file string
	var strict bool
	c := &cobra.Command{
		Use:   "import TORRC",
		Short: "Print a configuration file made from a C tor configuration",
		Long: "Print a configuration file made from a C tor configuration. Each line of it becomes a setting, with the line\n" +
			"in a comment, or a comment that says why there is no setting. Standard error names the lines that are lost, those\n" +
			"that limit or protect something last and by themselves. A torrc may describe several of Chive's programs: a line\n" +
			"on standard error names them.\n\n" +
			"Exit codes: 0 every line has its setting, or needs none; 4 the file is written, and lines are left out or\n" +
			"changed; 2 there is a mistake, or a line would be lost and --strict is given: then nothing is written.",
		Example: "  chive config import --out chive.toml /etc/tor/torrc\n  chive config import --role relay --strict --out relay.toml /etc/tor/torrc",
		Args:    cobra.ExactArgs(1),
	}
	var roles []string
	for _, r := range importRoles {
		roles = append(roles, r.name)
	}
	c.Flags().Var(options.Word{At: &name, Of: roles}, "role", "`PROGRAM` whose file is wanted: proxy, relay or authority (default: the first of authority, relay and proxy that the torrc describes)")
	c.Flags().StringVar(&file, "out", "", "`FILE` to write, which other users can read if they can read the torrc (default: standard output)")
	c.Flags().BoolVar(&strict, "strict", false, "write nothing if a line would be lost")
	c.RunE = func(c *cobra.Command, args []string) error {
		var lines []torrc.Line
		var mode os.FileMode
		if err := interruptible(c.Context(), func() (err error) {
			lines, mode, err = readTorrc(args[0])
			return err
		}); err != nil {
			return err
		}
		has := torrc.Roles(lines)
		i := slices.IndexFunc(importRoles, func(r importRole) bool { return r.name == name })
		for j := len(importRoles) - 1; name == "" && i < 0; j-- {
			if has&importRoles[j].role != 0 {
				i = j
			}
		}
		doc, err := torrc.Translate(lines, importRoles[i].role)
		if err == nil {
			err = atHome(doc)
		}
		if err != nil {
			return err
		}
		text, lost := imported(doc, importRoles[i], has, args[0])
		lost.tell(c.ErrOrStderr(), args[0])
		for j, r := range importRoles {
			if j != i && has&r.role != 0 {
				fmt.Fprintf(c.ErrOrStderr(), "the torrc describes a %s too: chive config import --role %s\n", r.name, r.name)
			}
		}
		if strict && lost.count > 0 {
			return fault.New(fault.Config, "%s: with --strict, nothing is written, because lines would be left out or changed: %d", args[0], lost.count)
		}
		if file != "" {
			err = fault.Wrap(fault.Local, atomicfile.Write(file, text, mode))
		} else {
			_, err = c.OutOrStdout().Write(text)
		}
		if err == nil && lost.count > 0 {
			fmt.Fprintf(c.ErrOrStderr(), "lines that are left out or changed: %d (exit code %d)\n", lost.count, exitLeftOut)
			return ExitError{exitLeftOut}
		}
		return err
	}
	return c
}

// maxIncluded bounds the paths that one %include names, with those in its folders: a folder
// may have a link to itself.
const maxIncluded = 1000

// readTorrc reads a torrc and the files that it includes. The torrc itself may be a pipe, which
// the user has named; it includes only regular files. The mode is that of a file for the same
// readers: it may have a proxy's password, and must be readable for a service's user if the
// torrc is.
func readTorrc(path string) ([]torrc.Line, os.FileMode, error) {
	mode := atomicfile.Report
	see := func(path string) {
		if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() || st.Mode().Perm()&0o004 == 0 {
			mode = atomicfile.Secret
		}
	}
	see(path)
	text, err := atomicfile.Read(path, tomlfile.MaxSize)
	if err != nil {
		return nil, mode, fault.New(fault.Config, "torrc: %w", err)
	}
	lines, err := torrc.Lines(torrc.Source{Name: path, Text: text}, func(pattern string) ([]torrc.Source, error) {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		if len(paths) == 0 && !strings.ContainsAny(pattern, "*?[") {
			return nil, fmt.Errorf("%s does not exist", pattern)
		}
		var out []torrc.Source
		for i := 0; i < len(paths); i++ {
			if len(paths) > maxIncluded {
				return nil, fmt.Errorf("%s names more than %d files", pattern, maxIncluded)
			}
			if st, err := os.Stat(paths[i]); err == nil && st.IsDir() {
				inside, err := filepath.Glob(filepath.Join(paths[i], "[^.]*"))
				if err != nil {
					return nil, err
				}
				paths = slices.Insert(paths, i+1, inside...)
				continue
			}
			see(paths[i])
			text, err := atomicfile.ReadRegular(paths[i], tomlfile.MaxSize)
			if err != nil {
				return nil, err
			}
			out = append(out, torrc.Source{Name: paths[i], Text: text})
		}
		return out, nil
	})
	return lines, mode, err
}

// atHome replaces "~" with this user's home where C tor does.
func atHome(doc *torrc.Document) error {
	for _, s := range doc.Settings {
		rest, ok := strings.CutPrefix(s.Values[0], "~")
		if !ok || !slices.Contains([]string{"data-dir", "key-dir", "log-file"}, s.Key) {
			continue
		}
		home, err := os.UserHomeDir()
		if err != nil || rest != "" && rest[0] != '/' {
			return fault.New(fault.Config, "%s: %s: the home that ~ stands for is not known: write the whole path", s.From[0].At(), s.From[0].Key)
		}
		s.Values[0] = home + rest
	}
	return nil
}

// tomlValue writes the values as the option's type wants them.
func tomlValue(s *torrc.Setting, fresh func() *daemon.Settings) string {
	kind := ""
	for _, v := range fresh().All() {
		if v.Key == s.Key {
			kind = v.Type()
		}
	}
	switch kind {
	case "stringSlice", "stringArray", "stringToInt":
		quoted := make([]string, len(s.Values))
		for i, v := range s.Values {
			quoted[i] = strconv.Quote(v)
		}
		return "[" + strings.Join(quoted, ", ") + "]"
	case "bool", "int", "uint64":
		return s.Values[0]
	}
	return strconv.Quote(strings.Join(s.Values, ",")) // several: a list between commas
}
