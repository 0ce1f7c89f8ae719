package main

import (
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/chivelab/internal/appearance"
	"github.com/chivenet/chive/internal/cli"
	"github.com/chivenet/chive/internal/fault"
)

// appearanceAnswersCommand compares what bridges of Chive's and of C tor's answer to probes.
func appearanceAnswersCommand() *cobra.Command {
	var both pair
	cmd := &cobra.Command{
		Use:   "answers",
		Short: "Compare what a bridge of Chive's answers to probes with what one of C tor's does",
		Long: `Start a bridge of C tor's and one of Chive's, and put the same questions to both, as somebody does who looks for bridges: handshakes of
TLS, HTTP, bytes that are nothing, silence, cells. It fails if an answer differs and that is not known, or is known and gone.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err := both.find(); err != nil {
				return err
			}
			dir, err := os.MkdirTemp("", "chivelab-answers-")
			if err != nil {
				return fault.Wrap(fault.Local, err)
			}
			defer func() { err = errors.Join(err, fault.Wrap(fault.Local, os.RemoveAll(dir))) }()
			all, err := appearance.Answers(cmd.Context(), dir, both.subjects("C tor", "Chive"))
			if err != nil {
				return err
			}
			for i := range all {
				a := &all[i]
				verdict := "same: " + a.First
				if a.Different() {
					verdict = "DIFFERS: " + a.First + "\n    Chive: " + a.Second
				}
				if both.own {
					a.Known = ""
				} else if a.Known != "" {
					verdict += "\n    known: " + a.Known
				}
				if err := cli.Printf(cmd, "%s: %s\n  %s\n", a.Name, a.What, verdict); err != nil {
					return err
				}
			}
			if wrong := appearance.JudgeAnswers(all); len(wrong) > 0 {
				return fault.New(fault.Local, "%s", strings.Join(wrong, "\n"))
			}
			return nil
		},
	}
	both.flags(cmd)
	cmd.Flags().SortFlags = false
	return cmd
}
