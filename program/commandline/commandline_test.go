package commandline_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/program/commandline"
	"github.com/chivenet/chive/program/programtest"
)

// app is a program with one command.
func app(at *string, several *[]string) *cobra.Command {
	root := &cobra.Command{Use: "app", Short: "A program of the test"}
	run := &cobra.Command{Use: "run FILE", Short: "Run it", Args: cobra.ExactArgs(1), RunE: func(_ *cobra.Command, args []string) error {
		_, err := os.ReadFile(args[0])
		return err
	}}
	run.Flags().Var(commandline.Word(at, []string{"strict", "relaxed"}), "mode", "`MODE` of the program")
	run.Flags().Var(commandline.Words(several, []string{"alpha", "beta"}), "kinds", "`KINDS` to do")
	root.AddCommand(run)
	commandline.Prepare(root)
	return root
}

func fresh(...string) *cobra.Command { return app(new(string), new([]string)) }

// TestChecks: a prepared program passes the checks of Chive's own programs.
func TestChecks(t *testing.T) {
	programtest.Words(t, fresh, 2)
	if n := programtest.Completion(t, fresh); n["words"] != 2 {
		t.Errorf("completed: %v", n)
	}
	if pages := programtest.Manual(t, fresh()); pages["app-run.1"] == nil {
		t.Errorf("pages: %d", len(pages))
	}
	if n := programtest.Mistakes(t, fresh, []string{"run"}, programtest.With{}, programtest.Bad(t, t.TempDir())); n < 5 {
		t.Errorf("only %d mistakes were found", n)
	}
}

// TestValues: flags keep their values where the program has them.
func TestValues(t *testing.T) {
	mode, kinds := "relaxed", []string{"alpha"}
	root := app(&mode, &kinds)
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	root.SetArgs([]string{"run", "--mode", "strict", "--kinds", "beta,alpha", file})
	if err := root.Execute(); err != nil || mode != "strict" || !slices.Equal(kinds, []string{"beta", "alpha"}) {
		t.Errorf("%v, %q, %q", err, mode, kinds)
	}
	root.SetArgs([]string{"rnu"})
	err := root.Execute()
	if !errors.Is(err, chive.ErrConfig) || !strings.Contains(err.Error(), `did you mean "run"?`) {
		t.Error(err)
	}
	var b strings.Builder
	if commandline.Complain(&b, "app", errors.New("a \x1b[31mstranger's text")); strings.Contains(b.String(), "\x1b") {
		t.Errorf("%q", b.String())
	}
}

// TestWriteManual writes each command's page.
func TestWriteManual(t *testing.T) {
	dir := t.TempDir()
	if err := commandline.WriteManual(fresh(), dir); err != nil {
		t.Fatal(err)
	}
	if page, err := os.ReadFile(filepath.Join(dir, "app-run.1")); err != nil || !strings.Contains(string(page), "Run it") {
		t.Errorf("%v\n%s", err, page)
	}
}
