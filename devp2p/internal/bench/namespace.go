package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/chivenet/chive/lab/host"
)

// InNamespace runs this program again in a network namespace, if it is not in one and
// can make one; it reports whether it ran. On an ordinary loopback the kernel delays
// acknowledgements, from which a stock tor suffers most: that would not be fair.
func InNamespace(ctx context.Context, program string, out, errOut io.Writer) (done bool, err error) {
	if host.InNamespace() {
		return false, nil
	}
	if err := host.CanNamespace(); err != nil {
		fmt.Fprintf(errOut, "NOT in a namespace, delayed acknowledgements count: %v\n", err)
		return false, nil
	}
	ns, err := host.NewNamespace(ctx, fmt.Sprint("chive-eth-bench-", os.Getpid()))
	if err != nil {
		return true, err
	}
	defer ns.Close()
	again := ns.Command(ctx, program, os.Args[1:]...)
	again.Cancel = func() error { return again.Process.Signal(os.Interrupt) }
	again.WaitDelay = time.Minute
	again.Stdout, again.Stderr = out, errOut
	if err := again.Run(); err != nil {
		return true, fmt.Errorf("in the namespace: %w", err)
	}
	return true, nil
}
