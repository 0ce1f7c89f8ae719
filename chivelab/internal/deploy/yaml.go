package deploy

import (
	"bytes"

	"go.yaml.in/yaml/v3"

	"github.com/chivenet/chive/internal/fault"
)

// mapping is a mapping of YAML whose keys stay in order, so that people find in a file what they look for.
type mapping []entry

type entry struct {
	key   string
	value any
}

// MarshalYAML implements yaml.Marshaler.
func (m mapping) MarshalYAML() (any, error) {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for _, e := range m {
		key, value := new(yaml.Node), new(yaml.Node)
		if err := key.Encode(e.key); err != nil { // it quotes what would be no string
			return nil, err
		}
		if err := value.Encode(e.value); err != nil {
			return nil, err
		}
		n.Content = append(n.Content, key, value)
	}
	return n, nil
}

// toYAML writes documents, with a comment before all.
func toYAML(comment string, docs ...mapping) ([]byte, error) {
	b := bytes.NewBufferString(comment)
	enc := yaml.NewEncoder(b)
	enc.SetIndent(2)
	for _, d := range docs {
		if err := enc.Encode(d); err != nil {
			return nil, fault.Wrap(fault.Local, err)
		}
	}
	return b.Bytes(), fault.Wrap(fault.Local, enc.Close())
}
