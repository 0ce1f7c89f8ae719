package daemon

import (
	"io"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/proxydial"
)

// Client is what this package needs of a client: a part of *chive.Client.
type Client interface {
	proxydial.Client
	Status() chive.Status
	Reload(chive.Config) error
	Events() (<-chan chive.Event, func())
	WriteMetrics(w io.Writer) error
	WriteMetricsJSON(w io.Writer) error
	Done() <-chan struct{}
	Err() error
	Close() error
}

var _ Client = (*chive.Client)(nil)
