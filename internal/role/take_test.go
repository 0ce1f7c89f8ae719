package role

import (
	"testing"
	"time"
)

// TestTake: what has the same name and type in a configuration and is live there comes into a role's
// struct, and nothing else does.
func TestTake(t *testing.T) {
	type Inner struct{ Limit int }
	type live struct {
		Inner
		Wait  time.Duration
		Names []int // read from texts
		Fixed bool  // not live
		Other string
		Named Inner // a value of the role's own
	}
	cfg := struct {
		Wait  time.Duration `reload:"live"`
		Limit int           `reload:"live"`
		Names []string      `reload:"live"`
		Fixed bool
	}{time.Second, 7, []string{"a"}, true}
	got := live{Names: []int{1}, Other: "x"}
	Take(&got, &cfg)
	if got.Limit != 7 || got.Wait != time.Second || len(got.Names) != 1 || got.Fixed || got.Other != "x" || got.Named.Limit != 0 {
		t.Errorf("%+v", got)
	}
}
