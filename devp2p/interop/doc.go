// Package interop has only tests: stock geth and go-ethereum's own judge, devp2p, on the
// other side of onions of a lab network. The programs come from the module peers/; the
// tests look for them in CHIVE_GETH_DIR and in PATH.
package interop
