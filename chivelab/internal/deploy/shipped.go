package deploy

import (
	_ "embed"

	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/tomlfile"
)

// Shipped is the name of the inventory that is in this program: docs/deploy.md shows it.
const Shipped = "seven"

//go:embed seven.toml
var shipped []byte

// Open reads an inventory: a file, or the shipped one by its name.
func Open(name string) (*Inventory, error) {
	if name == Shipped {
		return Parse(Shipped+".toml", shipped)
	}
	doc, err := atomicfile.ReadRegular(name, tomlfile.MaxSize)
	if err != nil {
		return nil, fault.New(fault.Config, "%w", err)
	}
	return Parse(name, doc)
}
