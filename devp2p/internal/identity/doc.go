// Package identity changes the keys by which others know a node, all of them or none: the key of the Ethereum
// node, the key of the sidecar beside it, and the key of their onion. Each of these names leads to the others,
// since records tell them together: one old key among new ones would tie the new ones to the past.
package identity
