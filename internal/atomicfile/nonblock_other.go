//go:build !unix

package atomicfile

const nonblock = 0 // other systems have no pipes among files
