package shadow

import (
	"bytes"
	"fmt"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/chivenet/chive/chivelab/internal/shadowfile"
	"github.com/chivenet/chive/internal/fault"
)

// What the simulator reads (docs/shadow_config_spec.md of Shadow 3.3).
type (
	config struct {
		General      shadowfile.General `yaml:"general"`
		Experimental experimental       `yaml:"experimental"`
		Network      network            `yaml:"network"`
		Hosts        yaml.Node          `yaml:"hosts"` // in their order
	}
	experimental struct {
		// Runahead is what packets may be delayed by beyond their links: nothing.
		Runahead *string `yaml:"runahead"`
		Dynamic  bool    `yaml:"use_dynamic_runahead"`
	}
	network struct {
		Graph shadowfile.Graph `yaml:"graph"`
		// Shortest is whether packets go by others' links when that is quicker.
		Shortest bool `yaml:"use_shortest_path"`
	}
	hostConfig struct {
		Node      int                  `yaml:"network_node_id"`
		Addr      string               `yaml:"ip_addr"`
		Up        string               `yaml:"bandwidth_up"`
		Down      string               `yaml:"bandwidth_down"`
		Processes []shadowfile.Process `yaml:"processes"`
	}
)

// maxKinds bounds the edges of the graph, which has one from each kind of link to each.
const maxKinds = 500

// config is the file that the simulator reads.
func (p *plan) config() ([]byte, error) {
	g := newGraph(p.hosts)
	if len(g.kinds) > maxKinds {
		return nil, fault.New(fault.Config, "%s: nodes have %d pairs of delay and loss, and %d are the most", p.File.Name, len(g.kinds), maxKinds)
	}
	c := config{
		General:      shadowfile.General{StopTime: fmt.Sprintf("%d s", int64(p.stop().Seconds())), Seed: p.File.Seed & (1<<32 - 1), Template: templateDir, Progress: true, LogLevel: "warning"},
		Experimental: experimental{nil, true},
		Network:      network{Graph: shadowfile.Graph{Type: "gml", Inline: g.gml()}},
		Hosts:        yaml.Node{Kind: yaml.MappingNode},
	}
	count := map[string]int{}
	for _, h := range p.hosts {
		hc := hostConfig{g.number[kindOf(h.access)], h.addr.String(), bits(rateOf(h.access.Up)), bits(rateOf(h.access.Down)), nil}
		for _, x := range p.processes(h, count[h.role]) {
			pc := shadowfile.Process{Path: x.path, Args: x.args, Start: fmt.Sprintf("%d ms", x.start.Milliseconds()), End: "running"}
			if x.ends {
				pc.End = map[string]int{"exited": 0}
			}
			hc.Processes = append(hc.Processes, pc)
		}
		count[h.role]++
		key := &yaml.Node{Kind: yaml.ScalarNode, Value: h.name, HeadComment: strconv.Quote(h.label)}
		value := new(yaml.Node)
		if err := value.Encode(hc); err != nil {
			return nil, fault.Wrap(fault.Local, err)
		}
		c.Hosts.Content = append(c.Hosts.Content, key, value)
	}
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(c); err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	return b.Bytes(), fault.Wrap(fault.Local, enc.Close())
}

func bits(rate int64) string { return fmt.Sprintf("%d bit", rate) }
