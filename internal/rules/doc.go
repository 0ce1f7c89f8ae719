// Package rules holds the tests of what is true of the whole tree: its levels, its public
// names, its documents, its goroutines, locks and logs. They run from the tree's root.
package rules
