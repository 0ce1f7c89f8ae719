//go:build unix

package identity

import (
	"fmt"
	"os"
	"syscall"
)

// ours refuses a key of another user. The new one would be of the user who runs this command, and the node could
// not read it: geth then makes a key by itself at each start.
func ours(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s is of another user: run this command as that user", path)
	}
	return nil
}
