// Package commandtest checks what the command lines of all programs tell and complete.
package commandtest

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

// jargon is how Go and its packages name mistakes, which are not for people who have never seen Go.
var jargon = regexp.MustCompile(`strconv\.|invalid syntax|missing port in address|too many colons|ParseAddr|[Uu]nmarshal|%!|<nil>|0x[0-9a-f]{6}` +
	`|\bbind:|\bdial (tcp|udp|unix)|\blisten (tcp|udp|unix)|\blookup \S+|no such host|\bparse "|parsing "|invalid argument|arg\(s\)|context canceled`)

// punctuation is what joins of texts leave.
var punctuation = regexp.MustCompile(`(^|[^.])\.\.($|[^./])|::| ,|;;|,,|: *;|[:;, ]$|[^.]\.$|^[:;,. ]|  |\n`)

var word = regexp.MustCompile(`\pL[\pL\pN_'-]*`)

// Rough returns what is wrong with the words of an error about one flag or argument: words or
// clauses that are there twice, jargon, and marks that join nothing. value is what the user
// wrote, and flag, if it is not empty, the flag without dashes.
func Rough(message, flag, value string) (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if s := jargon.FindString(message); s != "" && !strings.Contains(value, s) {
		say("jargon: %q", s)
	}
	rest := message
	if value != "" {
		rest = strings.ReplaceAll(rest, value, "V")
	}
	if s := punctuation.FindString(rest); s != "" {
		say("marks: %q", s)
	}
	if len(value) > 3 && strings.Count(message, value) > 1 {
		say("%q is there twice", value)
	}
	if flag != "" && len(regexp.MustCompile(`--`+flag+`\b[^-]`).FindAllString(message+" ", -1)) > 1 {
		say("--%s is there twice", flag)
	}
	told := flag != "" && regexp.MustCompile(`\b`+regexp.QuoteMeta(flag)+`\b`).MatchString(message)
	if dir := filepath.Dir(value); len(dir) > 8 && strings.Contains(message, dir) { // what is wrong may be a directory above
		told = true
	}
	if !told && (len(value) < 2 || !strings.Contains(message, value)) {
		say("it names neither --%s nor %q", flag, value)
	}
	return append(wrong, Doubled(rest)...)
}

// Doubled returns the words and clauses that are twice in a message: of wrapped errors, two often
// say the same.
func Doubled(message string) (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	var before []string // words of the clause before
	seen := map[string]bool{}
	for _, clause := range strings.Split(message, ": ") {
		words := word.FindAllString(strings.ToLower(clause), -1)
		for i := 1; i < len(words); i++ {
			if words[i] == words[i-1] {
				say("%q twice", words[i])
			}
		}
		if len(words) > 0 && len(before) > 0 && (alike(before[0], words[0]) || alike(before[len(before)-1], words[0])) {
			say("%q after %q", words[0], strings.Join(before, " "))
		}
		if key := strings.Join(words, " "); key != "" && seen[key] {
			say("the clause %q twice", clause)
		} else {
			seen[key] = true
		}
		before = words
	}
	return wrong
}

// alike reports whether two words are forms of one: listen, listening.
func alike(a, b string) bool {
	for _, end := range []string{"ing", "ed", "s"} {
		a, b = strings.TrimSuffix(a, end), strings.TrimSuffix(b, end)
	}
	return len(a) > 2 && a == b
}
