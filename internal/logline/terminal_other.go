//go:build !windows

package logline

import "os"

// prepare reports whether a terminal understands control codes.
func prepare(*os.File) bool { return true }
