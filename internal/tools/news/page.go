package main

import "strings"

// rows are the rows of docs/tor-releases.md: for each release the numbers that they name, and
// how many rows name none.
type rows map[string]*named

type named struct {
	keys     map[string]bool
	nameless int
}

// rowsOf reads the tables of a page: "| 0.4.9.14 | 41410, TROVE-2026-067 | ... |". Rows of
// other programs begin with their names and are no releases of C tor.
func rowsOf(page string) rows {
	all := rows{}
	for line := range strings.Lines(page) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) < 4 || cells[0] != "" {
			continue
		}
		v := strings.TrimSpace(cells[1])
		if _, ok := parseVersion(v); !ok {
			continue
		}
		r := all[v]
		if r == nil {
			r = &named{keys: map[string]bool{}}
			all[v] = r
		}
		keys := append(trove.FindAllString(cells[2], -1), number.FindAllString(trove.ReplaceAllString(cells[2], ""), -1)...)
		for _, k := range keys {
			r.keys[k] = true
		}
		if len(keys) == 0 {
			r.nameless++
		}
	}
	return all
}

// lacks returns the items of a release without a row. Items without a number are told only
// from the number of such rows: if there are too few, all of these items count.
func (all rows) lacks(r release) (items []item) {
	have := all[r.version]
	if have == nil {
		return r.items
	}
	nameless := 0
	for _, it := range r.items {
		if len(it.keys) == 0 {
			nameless++
		}
	}
	for _, it := range r.items {
		missing := len(it.keys) == 0 && nameless > have.nameless
		for _, k := range it.keys {
			missing = missing || !have.keys[k]
		}
		if missing {
			items = append(items, it)
		}
	}
	return items
}
