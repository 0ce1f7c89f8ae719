// Package gethtest finds the programs of go-ethereum that tests are judged by.
package gethtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/chivenet/chive/program/programtest"
)

// Program returns the path of geth or devp2p: in the directory CHIVE_GETH_DIR if that is
// set, else in PATH. Without the program it ends the test as programtest.Need does.
func Program(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(os.Getenv("CHIVE_GETH_DIR"), name)
	var err error
	if os.Getenv("CHIVE_GETH_DIR") == "" {
		path, err = exec.LookPath(name)
	} else {
		_, err = os.Stat(path)
	}
	programtest.Need(t, name+" (make peers builds it; CHIVE_GETH_DIR says where it is)", err)
	return path
}
