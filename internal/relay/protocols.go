package relay

// AllProtocols are the subprotocol versions of a relay that serves the directory.
const AllProtocols = dirProtocols
