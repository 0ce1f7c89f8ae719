//go:build !unix

package tord

import "github.com/chivenet/chive/internal/control"

// descriptorLimit says how many files the process may have open: this system sets no such limit.
func descriptorLimit(*query) (control.Answer, error) { return text("-1") }
