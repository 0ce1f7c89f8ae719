package chive

import "github.com/chivenet/chive/internal/client"

func init() {
	client.OnionControlOf = func(c any) client.OnionControl { return c.(*Client).inner }
}
