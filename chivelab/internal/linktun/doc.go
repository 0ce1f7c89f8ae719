// Package linktun attaches programs of others to an emulated network: each runs in Linux
// namespaces of its own, whose only way out is a TUN device with the link behind it. It needs root,
// or a kernel that lets users make namespaces.
//
// The namespaces have no name. They belong to a process that ends with this one, so nothing stays
// when this process is killed.
package linktun
