package rules

import (
	"fmt"
	"os"
	"testing"
)

// TestMain goes to the tree's root: the tests name files by their paths from there.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
