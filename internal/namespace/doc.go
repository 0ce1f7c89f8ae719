// Package namespace runs a program in Linux namespaces of its own, without root where the kernel
// allows that: its network has a loopback and a TUN device, whose other end the caller has. The
// program sees the files of the machine, but another /etc/resolv.conf, only its own processes, and none of the
// sockets by which libraries ask the machine's services for names.
//
// It starts the calling program again, inside: so main must call Inside before all else. That process is the
// first one in the namespaces ("init"). It makes the device and the mounts, starts the program without
// capabilities, passes signals and the exit code on, and ends with the program or with the caller. With it
// the kernel ends every process that is left in there.
package namespace
