// Package shadowfile has parts of the file that the simulator Shadow reads (docs/shadow_config_spec.md of Shadow 3.3).
package shadowfile

// General says how the simulator runs.
type General struct {
	StopTime string `yaml:"stop_time"`
	Seed     uint64 `yaml:"seed"`
	Template string `yaml:"template_directory"`
	Progress bool   `yaml:"progress"`
	LogLevel string `yaml:"log_level"`
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
