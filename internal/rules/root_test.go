package rules

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// TestMain goes to the tree's root: the tests name files by their paths from there.
//
// Go's cache of results does not see that, because it begins to note which files a test reads when m.Run
// does: it would say "ok (cached)" of documents and sources that have changed since. Without the file of
// these notes nothing is kept, and the tests run each time.
func TestMain(m *testing.M) {
	flag.Parse()
	err := flag.Set("test.testlogfile", "")
	if err == nil {
		err = os.Chdir("../..")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
