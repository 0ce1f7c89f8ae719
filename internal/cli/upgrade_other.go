//go:build !unix

package cli

import "os"

// notifyUpgrade does nothing: this system has no such signal, and no program takes the place of another.
func notifyUpgrade(chan<- os.Signal) {}
