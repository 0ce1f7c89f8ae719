// Package shadow takes experiments to the simulator Shadow and back: it writes a directory with all that the simulator
// needs, has the programs that measure inside, and makes a report of what they found. Relays of an experiment can be
// sampled from a consensus.
package shadow
