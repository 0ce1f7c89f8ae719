// Package deploy puts seven roles (client, directory, guard, middle, exit, target and monitor) on seven machines, as an
// inventory names them, has the client build circuits with each handshake, and collects what client and monitor found.
//
// What each machine does is the same everywhere: it runs this program with the arguments of its role (roles.go). A board
// is a way to reach a machine: Linux namespaces here (netns), or the system's ssh (ssh). Keys are made on the
// machine that uses them, and only public ones leave it.
// For containers (compose, k8s) this package runs nothing: it writes what other programs run.
package deploy
