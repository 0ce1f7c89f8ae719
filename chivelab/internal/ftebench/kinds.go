package ftebench

import (
	"slices"
	"strings"

	"github.com/chivenet/chive/fte"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/options"
)

// Kinds are all kinds of proxies.
var Kinds = []string{Classic, Bulk, Strict, Fteproxy, Obfs4}

// KindOf returns the kind in an entry of Plan.Kinds.
func KindOf(entry string) string {
	kind, _, _ := strings.Cut(entry, "/")
	return kind
}

// checkKinds reports the first kind or format that there is not: each is measured for a long time.
func (p *Plan) checkKinds() error {
	defs, err := fte.Release("", false)
	if err != nil {
		return err
	}
	if len(p.Kinds) == 0 {
		return fault.New(fault.Config, "no kind of proxy is named")
	}
	for _, text := range p.Kinds {
		kind, format, one := strings.Cut(text, "/")
		if !slices.Contains(Kinds, kind) {
			return fault.New(fault.Config, "kind: %w", options.NotOneOf(kind, Kinds))
		}
		formats := p.Formats
		if one {
			formats = []string{format}
		}
		for _, f := range formats {
			if _, _, err := defs.Pair(f); kind != Obfs4 && err != nil {
				return err
			}
		}
	}
	return nil
}
