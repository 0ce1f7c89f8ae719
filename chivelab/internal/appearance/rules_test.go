package appearance

import (
	"strings"
	"testing"
)

func TestRules(t *testing.T) {
	v := func(clients ...string) [][]string {
		var out [][]string
		for _, c := range clients {
			out = append(out, strings.Fields(c))
		}
		return out
	}
	for _, c := range []struct {
		name             string
		rule             rule
		a, b             [][]string
		different, known bool
	}{
		{"equal sets", same{}, v("x y", "y"), v("y", "x"), false, true},
		{"another value", same{}, v("x"), v("x z"), true, true},
		{"one has none", same{}, v("x"), v(""), true, true},
		{"nothing at all", same{}, v(""), v(""), false, false},
		{"the usual one", usual{}, v("x x y"), v("x z x"), false, true},
		{"another usual one", usual{}, v("x x y"), v("y y x"), true, true},
		{"no usual one", usual{}, v("x"), v(""), true, false},
		{"near shares", share{N: 4, Within: 0.5}, v("yes yes no no"), v("yes no no no"), false, true},
		{"far shares", share{N: 4, Within: 0.5}, v("yes yes", "yes yes"), v("yes yes no no"), true, true},
		{"too few", share{N: 4, Within: 0.5}, v("yes yes yes"), v("no no no no"), true, false},
		{"near means", mean{Within: 1}, v("1", "3"), v("3"), false, true},
		{"far means", mean{Within: 1}, v("1", "3"), v("3.5"), true, true},
		{"each client counts the same", mean{Within: 1}, v("9 9 9 9 9 9", "1"), v("5"), false, true},
		{"no numbers", mean{Within: 1}, v("1"), v(""), false, false},
		{"one distribution", sample{N: 4, D: 0.5}, v("1 2 3 4"), v("1 2 3 4 100"), false, true},
		{"two distributions", sample{N: 4, D: 0.5}, v("1 2", "3 4"), v("4 5 6 7"), true, true},
		{"small samples", sample{N: 4, D: 0.5}, v("1 2 3"), v("1 2 3 4"), false, false},
	} {
		different, known := c.rule.differ(c.a, c.b)
		if known != c.known || known && different != c.different {
			t.Errorf("%s: different %v, known %v", c.name, different, known)
		}
		again, _ := c.rule.differ(c.b, c.a)
		if known && again != different {
			t.Errorf("%s: it hangs on the order", c.name)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		x, y []float64
		want float64
	}{
		{[]float64{1, 2, 3, 4}, []float64{4, 3, 2, 1}, 0},
		{[]float64{1, 2, 3, 4}, []float64{5, 6, 7, 8}, 1},
		{[]float64{1, 1, 3, 3}, []float64{1, 3, 3, 3}, 0.25},
	} {
		if got := distance(c.x, c.y); got != c.want {
			t.Errorf("distance of %v and %v: %v, want %v", c.x, c.y, got, c.want)
		}
	}
}

// TestJudge: a new difference, one that is gone, and what was not seen are wrong.
func TestJudge(t *testing.T) {
	allowed := map[string]Known{"old": {Why: "w"}, "rare": {Why: "w", Sometimes: true}}
	for _, c := range []struct {
		name  string
		rows  []Row
		wrong string
	}{
		{"all as known", []Row{{Name: "old", Different: true}, {Name: "fine"}}, ""},
		{"new", []Row{{Name: "fine", Different: true}}, "a new difference"},
		{"gone", []Row{{Name: "old"}}, "no longer different"},
		{"unknown", []Row{{Name: "old", Unknown: true}}, "too little was seen"},
		{"rare, and there", []Row{{Name: "rare", Different: true}}, ""},
		{"rare, and not there", []Row{{Name: "rare"}}, ""},
	} {
		wrong := Judge(c.rows, allowed)
		if c.wrong == "" && len(wrong) > 0 || c.wrong != "" && (len(wrong) != 1 || !strings.Contains(wrong[0], c.wrong)) {
			t.Errorf("%s: %q", c.name, wrong)
		}
	}
}

func TestReadAllowed(t *testing.T) {
	v := Versions{Tor: "0.4.9.11", OpenSSL: "3.0"}
	got, err := readAllowed("# a comment\n\nclose: because\nskin-guard sometimes: it: is\nhello-suites (OpenSSL 3.0): old\nhello-groups (OpenSSL 3.5): new\ncells (tor 0.4.9.11): this one\nearly (tor 0.4.9.12): another\n", v)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Known{"close": {Why: "because"}, "skin-guard": {Why: "it: is", Sometimes: true}, "hello-suites": {Why: "old"}, "cells": {Why: "this one"}}
	if len(got) != len(want) {
		t.Errorf("%v", got)
	}
	for k, w := range want {
		if got[k] != w {
			t.Errorf("%s: %v, want %v", k, got[k], w)
		}
	}
	for _, bad := range []string{"close", "close: ", "nobody: knows", "close: a\nclose: b"} {
		if _, err := readAllowed(bad, v); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestFeatureNames(t *testing.T) {
	names := map[string]bool{}
	for _, f := range features() {
		if names[f.name] || f.name == "" || f.what == "" || strings.ContainsAny(f.name, " :()") {
			t.Errorf("%q: it is there twice, or its name is wrong", f.name)
		}
		names[f.name] = true
	}
}

// TestEach: kinds that one subject alone has shown decide nothing.
func TestEach(t *testing.T) {
	values := func(v ...string) [][]string { return [][]string{v} }
	for _, c := range []struct {
		a, b             [][]string
		different, known bool
	}{
		{values("yes: 1", "no: "), values("no: "), false, true},
		{values("yes: 1", "no: "), values("no: ", "yes: 2"), true, true},
		{values("yes: 1", "yes: 1"), values("yes: 1", "yes: 2"), true, true},
		{values("yes: 1"), values("no: "), false, false},
		{values(), values(), false, false},
	} {
		if d, k := (each{}).differ(c.a, c.b); d != c.different || k != c.known {
			t.Errorf("%v and %v: %v, known %v", c.a, c.b, d, k)
		}
	}
}
