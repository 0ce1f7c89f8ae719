package fault

// Also returns err, which is the others, too, for errors.Is and errors.As. Its text and its kind
// stay: a closed client's error is net.ErrClosed, for callers that know no kinds.
func Also(err error, others ...error) error {
	return &kinded{KindOf(err), &ended{err.Error(), append([]error{err}, others...)}}
}
