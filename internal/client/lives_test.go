package client

import "github.com/chivenet/chive/internal/path"

// lifeOf begins the life of a circuit that a test makes by itself.
func lifeOf(c *Client, of ...*path.Path) *circuitLife {
	p := append(of, &path.Path{})[0]
	return c.begin(c.ids.Add(1), p, ForStreams, false, nil)
}
