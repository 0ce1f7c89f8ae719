// Package ptspec has what both sides of the pluggable-transport interface read and write
// (pt-spec.txt, version 1): a transport's arguments, the environment of its process, and
// the constants of the Extended ORPort.
package ptspec
