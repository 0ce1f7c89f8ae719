package builtin

import (
	"maps"
	"strconv"

	"github.com/chivenet/chive/fte"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ptspec"
	"github.com/chivenet/chive/internal/quantity"
)

// limits reads the options that bound connections and memory. It returns the
// other options, which belong to the transport.
func limits(opts ptspec.Args) (cfg fte.ListenConfig, rest ptspec.Args, err error) {
	rest = maps.Clone(opts)
	for k, least := range map[string]int64{"max-connections": 1, "max-memory": 8 << 20} {
		s, ok := rest[k]
		if !ok {
			continue
		}
		delete(rest, k)
		read := quantity.Bytes
		if k != "max-memory" {
			read = func(s string) (uint64, error) { return strconv.ParseUint(s, 10, 63) }
		}
		n, err := read(s)
		if err != nil || int64(n) < least || n > 1<<48 {
			return cfg, nil, fault.New(fault.Config, "%s must be a number, at least %d", k, least)
		}
		if k == "max-memory" {
			cfg.MaxMemory = int64(n)
		} else {
			cfg.MaxConns = int(min(n, 1<<30))
		}
	}
	return cfg, rest, nil
}
