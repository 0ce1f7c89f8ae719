package stream

// UpEnded reports whether a joint has nothing more to do with what its connection says.
func UpEnded(j Joined) bool {
	of := j.(*joint)
	return of.done(&of.up)
}
