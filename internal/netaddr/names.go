package netaddr

import "strings"

// maxName is the longest host name of DNS, in bytes, and maxLabel the longest
// part of one.
const (
	maxName  = 255
	maxLabel = 63
)

// HostName reports whether s is a host name that programs may ask for and
// receive: labels of letters, digits, "-" and "_" (which real names have), with
// single dots between them and optionally one at the end.
func HostName(s string) bool {
	if len(s) > maxName {
		return false
	}
	for label := range strings.SplitSeq(strings.TrimSuffix(s, "."), ".") {
		if label == "" || len(label) > maxLabel || strings.ContainsFunc(label, notOfName) {
			return false
		}
	}
	return true
}

func notOfName(c rune) bool {
	return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_')
}

// LocalName reports whether a host name means this machine (RFC 6761) or a
// machine in the same local network (RFC 6762).
func LocalName(host string) bool {
	host = strings.ToLower(strings.TrimRight(host, "."))
	last := host[strings.LastIndexByte(host, '.')+1:]
	return last == "localhost" || last == "local"
}
