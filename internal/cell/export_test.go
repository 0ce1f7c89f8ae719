package cell

// Append writes the body.
func (m *CreatedFast) Append(dst []byte) []byte { return append(dst, m[:]...) }

// Append writes the body.
func (m *Introduce) Append(dst []byte) []byte { return append(m.AppendHeader(dst), m.Encrypted...) }

// Body returns the payload of a whole fixed cell, or the body of a whole
// variable cell, in place.
func Body(c []byte) []byte {
	if Cmd(c).IsVariable() {
		return c[VarHeaderLen:]
	}
	return c[HeaderLen:]
}
