package chive

import "github.com/chivenet/chive/internal/relay"

// MakeFamilyKey makes the key of a family of relays (proposal 321) in the files
// name.secret_family_key and name.public_family_id, which are C tor's too, and
// returns the family's identity. Every relay of the family needs the secret
// file below "keys" in its data directory, and the identity among its
// FamilyIDs. A key that is there is not replaced.
func MakeFamilyKey(name string) (id string, err error) { return relay.MakeFamilyKey(name) }
