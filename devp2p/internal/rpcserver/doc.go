// Package rpcserver is a JSON-RPC server over HTTP for programs on the same machine, such
// as wallets. It listens on loopback only. It refuses requests whose Host header is no
// name of loopback, and requests that a web page makes: so no page that a browser shows
// reaches it, but for browser extensions that the user has listed.
package rpcserver
