package cli

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/chivenet/chive/internal/options"
)

// Cobra keeps the functions of all templates in one map, without a lock.
func init() { cobra.AddTemplateFunc("flagsByGroup", flagsByGroup) }

// groupFlags has --help show flags under the headings of their groups.
func groupFlags(root *cobra.Command) {
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(), ".LocalFlags.FlagUsages", "flagsByGroup .LocalFlags", 1))
}

// flagsByGroup describes flags: those of no group first.
func flagsByGroup(fs *pflag.FlagSet) string {
	titles := []string{""}
	groups := map[string]*pflag.FlagSet{"": pflag.NewFlagSet("", pflag.ContinueOnError)}
	fs.SortFlags = false
	fs.VisitAll(func(f *pflag.Flag) {
		title := ""
		if v, ok := f.Value.(*options.Value); ok {
			title = v.Group
		}
		if groups[title] == nil {
			groups[title] = pflag.NewFlagSet("", pflag.ContinueOnError)
			groups[title].SortFlags = false
			titles = append(titles, title)
		}
		groups[title].AddFlag(f)
	})
	var b strings.Builder
	for _, title := range titles {
		if title != "" {
			b.WriteString("\n" + title + ":\n")
		}
		b.WriteString(groups[title].FlagUsages())
	}
	return b.String()
}
