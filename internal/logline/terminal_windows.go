package logline

import (
	"os"

	"golang.org/x/sys/windows"
)

// prepare has the console understand control codes, and reports whether it does.
func prepare(f *os.File) bool {
	h := windows.Handle(f.Fd())
	var mode uint32
	return windows.GetConsoleMode(h, &mode) == nil && windows.SetConsoleMode(h, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
