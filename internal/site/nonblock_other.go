//go:build !unix

package site

const nonblock = 0 // other systems have no pipes among files
