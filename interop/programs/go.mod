// Programs of others that start or control a tor, with Chive in its place. Nothing of Chive imports this, and this imports
// nothing of Chive: it runs bin/chive and bin/chivelab. "make judge-programs" runs it.
module github.com/chivenet/chive/interop/programs

go 1.26.0

require (
	github.com/cretz/bine v0.2.0
	github.com/lightningnetwork/lnd/tor v1.1.2
)

require (
	github.com/btcsuite/btcd v0.23.3 // indirect
	github.com/btcsuite/btcd/chaincfg/chainhash v1.0.1 // indirect
	github.com/btcsuite/btclog v0.0.0-20170628155309-84c8d2346e9f // indirect
	github.com/miekg/dns v1.1.43 // indirect
	golang.org/x/crypto v0.7.0 // indirect
	golang.org/x/net v0.10.0 // indirect
	golang.org/x/sys v0.8.0 // indirect
)
