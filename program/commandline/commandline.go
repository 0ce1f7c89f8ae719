// Package commandline makes the command line of a program around Chive like that of chive itself: strict,
// with errors that say what would be right, completed by shells, and with manual pages. The commands are
// those of package cobra.
package commandline

import (
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/chivenet/chive/internal/command"
	"github.com/chivenet/chive/internal/command/manual"
	"github.com/chivenet/chive/internal/options"
)

// Prepare makes a program's command line strict, and has shells complete it. Call it on the root, once all
// commands are there. What a flag's value is, the name of the value in its help tells: a `FILE`, a `DIR`.
func Prepare(root *cobra.Command) { command.Prepare(root) }

// Complain writes an error of a command for people. A part of it may be a stranger's text, which cannot
// steer their terminal.
func Complain(w io.Writer, program string, err error) { command.Complain(w, program, err) }

// WriteManual writes the manual pages of a command and all below it into a directory. Their date is that of
// the environment variable SOURCE_DATE_EPOCH, or today.
func WriteManual(root *cobra.Command, dir string) error { return manual.Write(root, dir) }

// Word is the value of a flag that is one of some words, and is kept at the pointer. The error for another
// word lists them, and shells complete them.
func Word(at *string, words []string) pflag.Value { return options.Word{At: at, Of: words} }

// Words is Word for a flag that is several of the words, with commas between them. What is at the pointer
// before is the default, which the command line replaces.
func Words(at *[]string, words []string) pflag.Value { return &options.WordList{At: at, Of: words} }
