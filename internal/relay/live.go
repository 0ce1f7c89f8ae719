package relay

// live is what of a relay's configuration may change while it runs.
type live struct {
	cfg    Config
	family *family
}
