//go:build !unix

package fte

import "io"

// source reads a connection. Without a system call that reports readiness, each
// read holds its buffer while it waits.
type source struct{ r io.Reader }

func newSource(r io.Reader) *source { return &source{r: r} }

func (s *source) read(get func() []byte, rest func()) (int, error) { return s.r.Read(get()) }
