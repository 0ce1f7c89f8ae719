package appearance

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/chivenet/chive/internal/fault"
)

// allowedText has the differences that are known: a name of a feature, and why it is there.
//
//go:embed allowed.txt
var allowedText string

// Known is a difference that is known.
type Known struct {
	Why       string
	Sometimes bool // not every run shows it
}

// Allowed returns the known differences from a C tor, by the feature's name.
func Allowed(v Versions) (map[string]Known, error) { return readAllowed(allowedText, v) }

// readAllowed reads lines "NAME: WHY". The name may be followed by " sometimes", and by " (tor VERSION)"
// or " (OpenSSL VERSION)" for differences from such a C tor alone.
func readAllowed(text string, v Versions) (map[string]Known, error) {
	known := map[string]bool{}
	for _, f := range append(features(), in(asClient, paramFeatures())...) {
		known[f.name] = true
	}
	out := map[string]Known{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, reason, ok := strings.Cut(line, ": ")
		name, condition, bound := strings.Cut(name, " (")
		name, sometimes := strings.CutSuffix(name, " sometimes")
		switch {
		case !ok || reason == "":
			return nil, fault.New(fault.Local, "allowed differences: %q has no reason", line)
		case !known[name]:
			return nil, fault.New(fault.Local, "allowed differences: no feature is called %q", name)
		case out[name].Why != "":
			return nil, fault.New(fault.Local, "allowed differences: %q is there twice", name)
		}
		if !bound || condition == "OpenSSL "+v.OpenSSL+")" || condition == "tor "+v.Tor+")" {
			out[name] = Known{reason, sometimes}
		}
	}
	return out, nil
}

// Judge compares a table with the known differences, and returns what is wrong: a difference that
// nobody has allowed, one that is gone and still allowed, and a feature of which too little was seen.
func Judge(rows []Row, allowed map[string]Known) []string {
	var wrong []string
	for _, r := range rows {
		k, known := allowed[r.Name]
		switch {
		case r.Unknown:
			wrong = append(wrong, fmt.Sprintf("%s: too little was seen of it: %s; %s", r.Name, r.First, r.Second))
		case r.Different && !known:
			wrong = append(wrong, fmt.Sprintf("%s: a new difference: %s is %s, not %s", r.Name, r.What, r.Second, r.First))
		case !r.Different && known && !k.Sometimes:
			wrong = append(wrong, fmt.Sprintf("%s: no longer different (%s): take it off the list", r.Name, r.Second))
		}
	}
	return wrong
}
