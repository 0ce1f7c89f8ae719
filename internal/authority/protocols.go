package authority

// VotedProtocols returns the lists of subprotocol versions for which an authority votes: those
// that it recommends to clients and relays, and those that it requires of them.
func VotedProtocols() []string {
	return []string{recommendedClient, recommendedRelay, requiredClient, requiredRelay}
}
