package tomlfile

import "github.com/chivenet/chive/internal/fault"

// maxNesting bounds the depth of nested arrays and inline tables, and the parts
// of a dotted key. No file here needs five. The TOML parser is recursive, and a
// hostile file with many levels could end the process.
const maxNesting = 32

// checkNesting checks a document against maxNesting. Its errors begin with the
// line. It understands only as much of TOML as it needs; the parser reports every
// other mistake.
func checkNesting(doc []byte) error {
	depth, dots, line := 0, 0, 1
	for i := 0; i < len(doc); {
		switch c := doc[i]; c {
		case '#':
			for i < len(doc) && doc[i] != '\n' {
				i++
			}
			continue
		case '"', '\'':
			n, lines := skipString(doc[i:], c)
			if n == 0 {
				return fault.New(fault.Config, "%d: a string does not end", line)
			}
			i, line = i+n, line+lines
			continue
		case '[', '{':
			depth, dots = depth+1, 0
		case ']', '}':
			depth, dots = max(depth-1, 0), 0
		case '.':
			dots++
		case '=', ',':
			dots = 0
		case '\n':
			dots = 0
			line++
		}
		if depth > maxNesting || dots > maxNesting {
			return fault.New(fault.Config, "%d: more than %d levels", line, maxNesting)
		}
		i++
	}
	return nil
}

// skipString returns the length of the string at the start of s, which begins
// with quote, and the number of line ends in it. The length is 0 if the string
// does not end.
func skipString(s []byte, quote byte) (n, lines int) {
	run := func(at int) (k int) { // the number of quotes from there on
		for at+k < len(s) && s[at+k] == quote {
			k++
		}
		return k
	}
	many := run(0) >= 3
	if !many && run(0) == 2 {
		return 2, 0
	}
	n = 1
	if many {
		n = 3
	}
	for n < len(s) {
		switch {
		case s[n] == '\\' && quote == '"':
			if n+1 < len(s) && s[n+1] == '\n' {
				lines++
			}
			n += 2
		case s[n] == '\n' && !many:
			return 0, 0
		case s[n] == '\n':
			lines++
			n++
		case s[n] != quote:
			n++
		case !many:
			return n + 1, lines
		default:
			k := run(n)
			if k >= 3 {
				return n + min(k, 5), lines // two more quotes may come before the three that end it
			}
			n += k
		}
	}
	return 0, 0
}
