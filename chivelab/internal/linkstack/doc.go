// Package linkstack attaches hosts of this process to an emulated network. Each has a user's stack
// of TCP and UDP (gVisor's) of its own, so it needs no root, and the machine's own network never
// sees a packet.
package linkstack
