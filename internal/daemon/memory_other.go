//go:build !linux

package daemon

// program has the mappings of the program's code; here it is empty.
type program struct{}

func findProgram() (program, error) { return program{}, nil }

func (program) unmap() error { return nil }
