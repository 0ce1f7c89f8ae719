//go:build !linux

package main

func insideNamespace() {}
