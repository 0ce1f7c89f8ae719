//go:build !linux

package socks

func (c *client) gone() bool { return c.goneReading() }
