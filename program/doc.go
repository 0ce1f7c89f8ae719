// Package program has what a program around Chive needs beside the client: a daemon, a sidecar of
// another program, or a node of another network that goes over onions. It has files and directories
// that outlast a crash, a log for people, local ports that answer this machine alone, metrics, and
// what keeps one mistake from ending the whole program.
//
// Nothing here needs a client, and each part works without the others. Errors have the kinds of package
// chive. What command lines need is in package commandline below this one, and what tests need in
// programtest.
package program

import "github.com/chivenet/chive/internal/version"

// Version returns the version of Chive in this program, such as "v0.9.0"; "devel" if the build did not
// record one.
func Version() string { return version.String() }
