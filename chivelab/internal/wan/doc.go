// Package wan compares Chive and C tor on an emulated wide area: relays of several rates in regions that are far
// apart, and clients that fetch pages from a server through them.
//
// Each relay, each client and the server is a process in Linux namespaces of its own, behind an emulated link (packages
// linktun and links), so that both programs use the same kernel's TCP over equal links. Four sides are compared: clients
// of C tor or Chive on relays of C tor or Chive. A seed fixes where everybody is, the path of each client and when it
// asks for what; a side changes nothing of it. The directory is one authority of Chive's on every side: it is not
// measured.
package wan
