//go:build !unix && !windows

package watch

import "os"

func prepare(*os.File) (undo func(), err error) { return func() {}, nil }

// sizeChanges: the view looks at the size with each snapshot.
func sizeChanges() (<-chan struct{}, func()) { return nil, func() {} }
