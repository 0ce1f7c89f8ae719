// Package pool keeps transactions for a node without state: it checks what can be
// checked without accounts, and holds a bounded number of them.
//
// A node without state cannot see whether a sender can pay. So a signature costs an
// attacker nothing, and a high tip neither: the pool does not prefer by price. When it is
// full, the peer that fills most of it loses its oldest transaction. A peer that floods
// the pool displaces its own transactions, not those of others.
package pool
