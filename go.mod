module github.com/chivenet/chive

go 1.26

require (
	github.com/cloudflare/circl v1.6.5
	golang.org/x/crypto v0.54.0
)

require golang.org/x/sys v0.47.0

require golang.org/x/net v0.56.0
