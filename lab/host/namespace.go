package host

import (
	"context"
	"os/exec"

	"github.com/chivenet/chive/internal/lab/netns"
)

// Namespace is a Linux network namespace that has only a loopback, which acknowledges at once. On an ordinary
// loopback the kernel delays acknowledgements by up to 40 ms, which looks like the slowness of who is measured.
type Namespace struct{ inner *netns.Namespace }

// CanNamespace returns nil if a namespace can be made here, or else the reason why not. It needs Linux, root and
// iproute2.
func CanNamespace() error { return netns.Available() }

// InNamespace reports whether Namespace.Command has started this process.
func InNamespace() bool { return netns.Inside() }

// NewNamespace makes the namespace of the given name, which must not exist.
func NewNamespace(ctx context.Context, name string) (*Namespace, error) {
	ns, err := netns.New(ctx, name)
	if err != nil {
		return nil, err
	}
	return &Namespace{ns}, nil
}

// WayOut gives the namespace a default route that leads nowhere: the interface out0, whose other end nobody
// reads. So packets for outside are sent, and a test can count them.
func (ns *Namespace) WayOut(ctx context.Context) error { return ns.inner.WayOut(ctx) }

// Command returns a command that runs a program inside.
func (ns *Namespace) Command(ctx context.Context, program string, args ...string) *exec.Cmd {
	return ns.inner.Command(ctx, program, args...)
}

// Close removes the namespace; processes that still run in it keep it until they end.
func (ns *Namespace) Close() error { return ns.inner.Close() }
