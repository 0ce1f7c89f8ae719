//go:build !unix

package fte

import "io"

// source reads a connection. Where the system offers no readiness call, each
// read holds its buffer while it waits.
type source struct{ r io.Reader }

func newSource(r io.Reader) *source { return &source{r: r} }

func (s *source) read(get func() []byte, rest func()) (int, error) { return s.r.Read(get()) }
