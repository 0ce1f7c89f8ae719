package client

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

// TestReloadWithNewDirectory: a directory that comes at the moment of a reload does not bring
// the old settings back.
func TestReloadWithNewDirectory(t *testing.T) {
	made, err := dirgen.New(dirgen.Options{Relays: 60, ValidAfter: time.Now().Add(-time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	d, err := made.Directory()
	if err != nil {
		t.Fatal(err)
	}
	all, err := path.ParseSet([]string{"0.0.0.0/0"})
	if err != nil {
		t.Fatal(err)
	}
	var nets []string
	for i := range 256 {
		nets = append(nets, fmt.Sprintf("2001:db8:%x::/48", i))
	}
	absent, err := path.ParseSet(nets)
	if err != nil {
		t.Fatal(err)
	}
	c := isolated(t, netdir.Public(), refuse)
	for i := range 1000 {
		var next Live
		none := i%2 == 0
		if none {
			next.Path.Exclude = all
		} else {
			next.Path.Entry = absent // a preference that is looked at for long, in vain
		}
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { c.newDirectory(d) })
		}
		c.Reload(next)
		wg.Wait()
		if n := c.guards.Status(time.Now()).Filtered; (n == 0) != none {
			t.Fatalf("round %d: %d guards may be used", i, n)
		}
	}
}
