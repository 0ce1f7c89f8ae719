package netdoc

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
)

func (l *Lifetime) append(dst []byte) []byte {
	dst = append(appendTime(append(dst, "valid-after "...), l.ValidAfter), '\n')
	dst = append(appendTime(append(dst, "fresh-until "...), l.FreshUntil), '\n')
	return append(appendTime(append(dst, "valid-until "...), l.ValidUntil), '\n')
}

func appendSharedRandom(dst []byte, keyword string, r *SharedRandom) []byte {
	if r == nil {
		return dst
	}
	return appendLine(dst, keyword, itoa(r.Reveals), base64.StdEncoding.EncodeToString(r.Value[:]))
}

func (s *DirSource) append(dst []byte) []byte {
	return appendLine(s.appendVote(dst), "vote-digest", strings.ToUpper(hex.EncodeToString(s.VoteDigest[:])))
}

// appendVote writes the lines that votes have, too.
func (s *DirSource) appendVote(dst []byte) []byte {
	dst = appendLine(dst, "dir-source", s.Nickname, s.Identity.String(), s.Hostname, s.Addr.String(), itoa(s.DirPort), itoa(s.ORPort))
	return appendLine(dst, "contact", s.Contact)
}
