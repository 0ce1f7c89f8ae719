package commandtest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Bad returns values that no flag or argument with a name in the help can have, or that few can:
// a file that is not there, a directory in its place. dir is an empty directory.
func Bad(t *testing.T, dir string) map[string][]string {
	t.Helper()
	file, loop, secret := filepath.Join(dir, "some-file"), filepath.Join(dir, "loop"), filepath.Join(dir, "secret")
	for path, text := range map[string]string{file: "%% nonsense\n", secret: "x"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(secret, 0); err != nil {
		t.Fatal(err)
	}
	files := []string{filepath.Join(dir, "absent"), dir, filepath.Join(file, "below"), loop, file}
	if os.Getuid() != 0 { // root may read it
		files = append(files, secret)
	}
	numbers := []string{"some", "-7", "1.5e", "99999999999999999999", "0x", ""}
	addresses := []string{"nonsense", "127.0.0.1:99999", "host.example:80", "unix:", "127.0.0.1", "300.1.1.1:80", "[::1:80"}
	out := map[string][]string{
		"FILE": files, "PATH": files, "TORRC": files, "SOCKET": files, "DIR": {file, filepath.Join(file, "below"), loop}, "LINE": {"@" + files[0], "@" + dir},
		"ADDR": addresses, "IP:PORT": addresses, "HOST:PORT": addresses, "IP": {"nonsense%%", "300.1.1.1"},
		"URL": {"nonsense", "ftp://host.example/", "http://:80", "socks5://", "http://[::1", "@" + files[0]}, "RELAYS": {"%%", "{qqq}", "1.2.3.4/99"},
		"TIME": {"some", "5", "-3s", "5 parsecs", "99999999h"}, "NAME=NUMBER": {"x", "x=y", "=5", "x=99999999999"},
	}
	for _, name := range []string{"NUMBER", "NUMBERS", "BYTES", "MiB", "PORT", "EFFORT", "TIMES", "MONTHS", "DAYS", "MBITS", "TIP", "ID"} {
		out[name] = numbers
	}
	return out
}

// With is what a command needs besides the flag or argument that is wrong.
type With struct {
	Flags []string
	Args  []string // nil: a new path for each
	// Fresh makes the arguments anew for each run, and before it what they name. It counts
	// before Args.
	Fresh func() []string
	// Later are flags that are looked at only after others, which are missing here.
	Later []string
}

// Values gives each flag of a command, and each of its arguments, bad values, and checks the words
// of each error (Rough). It returns how many errors it saw.
func Values(t *testing.T, root func(args ...string) *cobra.Command, path []string, with With, bad map[string][]string) int {
	t.Helper()
	seen := 0
	try := func(flag, value string, args ...string) {
		t.Helper()
		_, err := Run(t, root(path...), append(path[:len(path):len(path)], args...)...)
		if err == nil || errors.Is(err, context.Canceled) || strings.HasSuffix(err.Error(), "stopped") || strings.HasPrefix(err.Error(), "exit code ") { // Run's context has ended, or the command has said it all
			return
		}
		seen++
		for _, w := range Rough(err.Error(), flag, value) {
			t.Errorf("%s %s: %v: %s", strings.Join(path, " "), strings.Join(args, " "), err, w)
		}
	}
	c, _, err := root(path...).Find(path)
	if err != nil {
		t.Fatal(err)
	}
	var names []string // of the arguments
	for _, name := range strings.Fields(c.Use)[1:] {
		if strings.HasPrefix(name, "-") || strings.HasPrefix(name, "[") {
			break
		}
		names = append(names, strings.TrimRight(name, "."))
	}
	arguments := func() []string {
		if with.Fresh != nil {
			return with.Fresh()
		}
		if with.Args != nil {
			return with.Args
		}
		all := make([]string, len(names))
		for i := range all {
			all[i] = filepath.Join(t.TempDir(), "new")
		}
		return all
	}
	Flags(c, func(f *pflag.Flag, name string) {
		if slices.Contains(with.Later, f.Name) {
			return
		}
		values := append([]string{"%% nonsense"}, bad[name]...)
		if f.Value.Type() == "bool" {
			values = []string{"maybe"}
		}
		for _, v := range values {
			try(f.Name, v, slices.Concat(with.Flags, []string{"--" + f.Name + "=" + v}, arguments())...)
		}
	})
	for i, name := range names {
		for _, v := range append([]string{"%% nonsense"}, bad[name]...) {
			args := arguments()
			try("", v, slices.Concat(with.Flags, args[:i], []string{v}, args[min(i+1, len(args)):])...)
		}
	}
	return seen
}
