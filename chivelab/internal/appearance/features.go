package appearance

import (
	"fmt"
	"slices"
)

// feature is one row of the table: what is looked at, and how it is compared.
type feature struct {
	name  string // of the list of allowed differences, too
	where string // who sees it
	what  string // what it is, for readers
	rule  rule
	see   func(v *view) []string // of one client
}

// row is a feature of the clients of one role.
type row struct {
	feature
	as role
}

// Who sees a feature.
const (
	onWire  = "wire"
	atGuard = "guard"
	atExit  = "exit"
	atOnion = "onion relays"
)

// features are all rows, in the order of the table.
func features() []row {
	return slices.Concat(in(asClient, clientFeatures()), in(byBridge, bridgeFeatures()), in(asService, serviceFeatures()))
}

func in(as role, fs []feature) []row {
	var out []row
	for _, f := range fs {
		out = append(out, row{f, as})
	}
	return out
}

// clientFeatures are those of a client as most are.
func clientFeatures() []feature {
	return slices.Concat(wireFeatures(), linkFeatures(), directoryFeatures(), circuitFeatures(), timeFeatures(), endFeatures(), exitFeatures(), onionFeatures())
}

// yes is the value of a fact.
func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func one(format string, args ...any) []string { return []string{fmt.Sprintf(format, args...)} }

// orNothing makes "nothing" a value: that a client never does something is seen, too.
func orNothing(values []string) []string {
	if len(values) == 0 {
		return []string{"nothing"}
	}
	return values
}

func count(n int) []string { return one("%d", n) }
