package tord

import (
	"strings"
	"sync"

	"github.com/chivenet/chive/internal/control"
)

// grouping are the options whose lines C tor tells together with those of the option that no file keeps: SocksPortLines
// are the lines of SocksPort and __SocksPort.
var grouping = []string{"ControlPort", "DirPort", "DNSPort", "ExtORPort", "HTTPTunnelPort", "MetricsPort", "NATDPort", "ORPort", "SocksPort", "TransPort"}

// portGroups has the groups by their names in small letters.
var portGroups = sync.OnceValue(func() map[string]*option {
	m := map[string]*option{}
	for _, name := range grouping {
		m[strings.ToLower(name)+"lines"] = &option{name: name + "Lines", kind: "Virtual", does: group}
	}
	return m
})

// groupLines answers GETCONF for a group: its lines, or its name alone.
func (c conf) groupLines(g *option) []control.Line {
	var out []control.Line
	name := strings.TrimSuffix(g.name, "Lines")
	for _, of := range []string{name, "__" + name} {
		for _, v := range c[of] {
			out = append(out, control.Line{Key: of, Value: v, HasValue: true})
		}
	}
	if out == nil {
		out = []control.Line{{Key: g.name}}
	}
	return out
}
