package experiment

import (
	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/tomlfile"
)

// readFile reads a file that a user named or that this package wrote.
func readFile(name string) ([]byte, error) {
	doc, err := atomicfile.ReadRegular(name, tomlfile.MaxSize)
	if err != nil {
		return nil, fault.New(fault.Config, "%w", err)
	}
	return doc, nil
}
