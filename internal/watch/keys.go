package watch

// sequences are the keys that terminals send as several bytes, after ESC.
var sequences = map[string]key{
	"[A": keyUp, "[B": keyDown, "[C": keyRight, "[D": keyLeft,
	"OA": keyUp, "OB": keyDown, "OC": keyRight, "OD": keyLeft,
	"[5~": keyPageUp, "[6~": keyPageDown, "[H": keyHome, "[F": keyEnd, "OH": keyHome, "OF": keyEnd,
	"[1~": keyHome, "[4~": keyEnd, "[7~": keyHome, "[8~": keyEnd, "[Z": keyBackTab,
}

// parseKeys returns the keys in what a terminal has sent at once. It drops sequences that
// it does not know. A terminal sends a whole sequence at once, so that an ESC at the
// end is the key.
func parseKeys(b []byte) (out []key) {
	for len(b) > 0 {
		if b[0] != 0x1b {
			out, b = append(out, key(b[0])), b[1:]
			continue
		}
		n := sequence(b[1:])
		if n == 0 {
			out, b = append(out, keyEscape), b[1:]
			continue
		}
		if k, ok := sequences[string(b[1:1+n])]; ok {
			out = append(out, k)
		}
		b = b[1+n:]
	}
	return out
}

// sequence returns the length of the sequence that b begins with, without its ESC (ECMA-48,
// section 5.4: parameters, then a final byte).
func sequence(b []byte) int {
	switch {
	case len(b) >= 2 && b[0] == 'O':
		return 2
	case len(b) >= 1 && b[0] == '[':
		for i := 1; i < len(b); i++ {
			if b[i] >= 0x40 && b[i] <= 0x7e {
				return i + 1
			}
		}
		return len(b)
	}
	return 0
}
