// Package shadowfile writes the file that the simulator Shadow reads (docs/shadow_config_spec.md of Shadow 3.3), and what
// programs in it need ahead.
package shadowfile

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/chivenet/chive/internal/fault"
)

// General says how the simulator runs.
type General struct {
	StopTime string `yaml:"stop_time"`
	// BootstrapEnd is until when no packet is lost and links have no rate; empty: not at all.
	BootstrapEnd string `yaml:"bootstrap_end_time,omitempty"`
	Seed         uint64 `yaml:"seed"`
	Template     string `yaml:"template_directory"`
	Progress     bool   `yaml:"progress"`
	LogLevel     string `yaml:"log_level"`
}

// Graph says which places there are, and what is between them.
type Graph struct {
	Type   string `yaml:"type"`
	Inline string `yaml:"inline"`
}

// Process is a program on a host.
type Process struct {
	Path  string   `yaml:"path"`
	Args  []string `yaml:"args,flow"`
	Start string   `yaml:"start_time"`
	End   any      `yaml:"expected_final_state"`
}

// What Process.End may be.
var (
	// Running is a process that runs until the simulation ends.
	Running any = "running"
	// Exited is one that ends by itself, with 0.
	Exited any = map[string]int{"exited": 0}
)

// Host is a host with a place, a rate and processes.
type Host struct {
	Node      int       `yaml:"network_node_id"`
	Addr      string    `yaml:"ip_addr"`
	Up        string    `yaml:"bandwidth_up"`
	Down      string    `yaml:"bandwidth_down"`
	Processes []Process `yaml:"processes"`
}

// Config is the whole file of a network with several places.
type Config struct {
	General      General      `yaml:"general"`
	Experimental experimental `yaml:"experimental"`
	Network      network      `yaml:"network"`
	Hosts        yaml.Node    `yaml:"hosts"` // in their order
}

type experimental struct {
	// Runahead is what packets may be delayed by beyond their links: nothing.
	Runahead *string `yaml:"runahead"`
	Dynamic  bool    `yaml:"use_dynamic_runahead"`
}

type network struct {
	Graph Graph `yaml:"graph"`
	// Shortest is whether packets go by others' links when that is quicker.
	Shortest bool `yaml:"use_shortest_path"`
}

// New returns a file without hosts.
func New(g General, p *Places) *Config {
	return &Config{General: g, Experimental: experimental{nil, true}, Network: network{Graph: Graph{Type: "gml", Inline: p.gml()}}, Hosts: yaml.Node{Kind: yaml.MappingNode}}
}

// Add adds a host. Its comment stands before it.
func (c *Config) Add(name, comment string, h *Host) error {
	value := new(yaml.Node)
	if err := value.Encode(h); err != nil {
		return fault.Wrap(fault.Local, err)
	}
	c.Hosts.Content = append(c.Hosts.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name, HeadComment: comment}, value)
	return nil
}

// Text is the file.
func (c *Config) Text() ([]byte, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(c); err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	return b.Bytes(), fault.Wrap(fault.Local, enc.Close())
}

// UnboundRate stands for links without a bound, which the simulator does not have.
const UnboundRate = 10_000_000_000

// Rate is a link's rate in bits a second as the simulator takes it: in whole bytes. 0 is one without a bound.
func Rate(rate int64) int64 {
	if rate == 0 {
		return UnboundRate
	}
	return max(8, rate/8*8)
}

// Bits writes a rate.
func Bits(rate int64) string { return fmt.Sprintf("%d bit", rate) }
