package watch

import (
	"os"

	"golang.org/x/sys/windows"
)

// prepare has the console understand control codes.
func prepare(out *os.File) (undo func(), err error) {
	h := windows.Handle(out.Fd())
	var mode uint32
	if err := windows.GetConsoleMode(h, &mode); err != nil {
		return nil, err
	}
	if err := windows.SetConsoleMode(h, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING); err != nil {
		return nil, err
	}
	return func() { windows.SetConsoleMode(h, mode) }, nil
}

// sizeChanges: the view looks at the size with each snapshot.
func sizeChanges() (<-chan struct{}, func()) { return nil, func() {} }
