package fault

// Except returns err, or nil if it is of the given kind: for callers to whom an
// error of that kind is no failure, such as a send on a circuit that has closed.
func Except(kind Kind, err error) error {
	if Is(err, kind) {
		return nil
	}
	return err
}
