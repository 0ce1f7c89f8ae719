package main

import "github.com/chivenet/chive/internal/namespace"

// insideNamespace must be called first of all: the first process in a namespace is this program, once more.
func insideNamespace() { namespace.Inside() }
