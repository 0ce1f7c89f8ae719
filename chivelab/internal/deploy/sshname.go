package deploy

import (
	"strconv"
	"strings"
)

// validSSH tells whether a text is USER@HOST or USER@HOST:PORT. Nothing in it can be an option of ssh or a word of a shell.
func validSSH(s string) bool {
	user, host, ok := strings.Cut(s, "@")
	if name, port, has := strings.Cut(host, ":"); has {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return false
		}
		host = name
	}
	return ok && word(user) && word(host)
}

// word tells whether a text has only letters, digits, dots, dashes and underlines, and begins with a letter or digit.
func word(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && (i == 0 || c != '.' && c != '-' && c != '_') {
			return false
		}
	}
	return s != ""
}
