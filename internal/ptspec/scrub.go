package ptspec

import "regexp"

// addresses matches all that looks like an IP address, with or without a port.
var addresses = regexp.MustCompile(`\b\d{1,3}(\.\d{1,3}){3}(:\d+)?\b|\[?[0-9a-fA-F]{0,4}(:[0-9a-fA-F]{0,4}){2,7}\]?(:\d+)?`)

// Scrub removes addresses from a transport's text and bounds its length.
func Scrub(s string) string {
	if len(s) > 1000 {
		s = s[:1000]
	}
	return addresses.ReplaceAllString(s, "[scrubbed]")
}
