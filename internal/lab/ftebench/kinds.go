package ftebench

import (
	"slices"
	"strings"

	"github.com/chivenet/chive/fte"
	"github.com/chivenet/chive/internal/fault"
)

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
		if all := []string{Classic, Bulk, Strict, Fteproxy, Obfs4}; !slices.Contains(all, kind) {
			return fault.New(fault.Config, "kind %q is none of %s", kind, strings.Join(all, ", "))
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
