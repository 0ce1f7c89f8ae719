package main

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"
)

// release is a section of C tor's changelog.
type release struct {
	version string
	day     string // such as "2026-10-28"
	items   []item
}

// item is one change.
type item struct {
	title string // of its group, such as "Minor features (geoip data)"
	text  string // on one line
	keys  []string
}

var (
	releaseLine = regexp.MustCompile(`^Changes in version ([0-9]+(?:\.[0-9]+){3}(?:-[a-z0-9]+)*) - ([0-9]{4}-[0-9]{2}-[0-9]{2})$`)
	ticket      = regexp.MustCompile(`(?i)\b(?:fix(?:es)?|closes|implements|resolves|part of) (?:part of )?(?:bug|ticket|issue)s? #?([0-9]{4,6}(?:(?:, and |, | and )#?[0-9]{4,6})*)`)
	number      = regexp.MustCompile(`[0-9]{4,6}`)
	trove       = regexp.MustCompile(`TROVE-[0-9]{4}-[0-9]{3,}`)
	chosen      = regexp.MustCompile(`(?i)^Regenerate fallback directories generated on ([A-Z][a-z]+ [0-9]{1,2}, [0-9]{4})\.$`)
)

// changelog reads C tor's changelog, the newest release first.
func changelog(text string) ([]release, error) {
	var all []release
	title, open := "", false // open: the last item may continue
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \r\n")
		if m := releaseLine.FindStringSubmatch(line); m != nil {
			all = append(all, release{version: m[1], day: m[2]})
			title, open = "", false
			continue
		}
		if len(all) == 0 {
			continue
		}
		r := &all[len(all)-1]
		switch {
		case strings.HasPrefix(line, "  o "):
			title, open = strings.TrimSuffix(line[4:], ":"), false
		case strings.HasPrefix(line, "    - "):
			r.items = append(r.items, item{title: title, text: line[6:]})
			open = true
		case strings.HasPrefix(line, "      ") && open:
			it := &r.items[len(r.items)-1]
			it.text += " " + strings.TrimSpace(line)
		case strings.HasPrefix(line, "    ") && title != "" && !open: // a title of two lines
			title += " " + strings.TrimSuffix(strings.TrimSpace(line), ":")
		}
	}
	if len(all) == 0 {
		return nil, errors.New("the changelog has no release")
	}
	for i := range all {
		for j := range all[i].items {
			it := &all[i].items[j]
			it.keys = keysOf(it.title + ": " + it.text)
		}
	}
	return all, nil
}

// keysOf returns the numbers of the tickets that an item closes, and of advisories. Of other
// tickets it only tells.
func keysOf(text string) []string {
	keys := trove.FindAllString(text, -1)
	for _, m := range ticket.FindAllStringSubmatch(text, -1) {
		keys = append(keys, number.FindAllString(m[1], -1)...)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// listDate returns the day on which the fallback directories of the newest release were
// chosen. A release that says nothing has the list of the one before.
func listDate(all []release) (time.Time, error) {
	for _, r := range all {
		for _, it := range r.items {
			if m := chosen.FindStringSubmatch(it.text); m != nil {
				return time.Parse("January 2, 2006", m[1])
			}
		}
	}
	return time.Time{}, errors.New("the changelog does not say when the fallback directories were chosen")
}
