package interop

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// What tests share is made once: linking the program and importing a chain take seconds each.

// shared is the directory for it, until all tests have run.
var shared string

// builtVar names the program to a test that runs in another process.
const builtVar = "CHIVE_ETH_BUILT"

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if shared, err = os.MkdirTemp("", "chive-interop-"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(shared)
		return m.Run()
	}())
}

var built = sync.OnceValues(func() (string, error) {
	if path := os.Getenv(builtVar); path != "" {
		return path, nil
	}
	path := filepath.Join(shared, "chive-eth")
	if out, err := exec.Command("go", "build", "-o", path, "../cmd/chive-eth").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

// data is what geth makes of a chain.
type data struct {
	once sync.Once
	dir  string
	err  error
}

var datas sync.Map // of *data, by the chain

// dataOf fills a geth's directory with a chain: the first block, or the blocks of a file, too. What geth made of a file it
// gets as a copy, with no key of a node.
func dataOf(geth, dir, genesis, chain string, states bool) error {
	run := func(dir string, args ...string) error {
		if out, err := exec.Command(geth, append([]string{"--datadir", dir}, args...)...).CombinedOutput(); err != nil {
			return fmt.Errorf("geth %s: %w\n%s", args[0], err, out)
		}
		return nil
	}
	begin := func(dir string) error { return run(dir, "--state.scheme", "hash", "init", genesis) }
	if chain == "" {
		return begin(dir)
	}
	found, _ := datas.LoadOrStore(fmt.Sprint(chain, states), &data{})
	d := found.(*data)
	d.once.Do(func() {
		if d.dir, d.err = os.MkdirTemp(shared, "chain-"); d.err != nil {
			return
		}
		if d.err = begin(d.dir); d.err != nil {
			return
		}
		if states {
			d.err = run(d.dir, keepStates, "import", chain)
		} else {
			d.err = run(d.dir, "import", chain)
		}
		d.err = errors.Join(d.err, os.Remove(filepath.Join(d.dir, "geth", "nodekey")))
	})
	if d.err != nil {
		return d.err
	}
	return os.CopyFS(dir, os.DirFS(d.dir))
}
