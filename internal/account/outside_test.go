package account

import (
	"slices"
	"testing"
)

func TestOutside(t *testing.T) {
	var told []int64
	HearOutside(func(n int64) { told = append(told, n) })
	Outside(100)
	Outside(-40)
	HearOutside(nil)
	Outside(-60)
	if !slices.Equal(told, []int64{0, 100, 60}) {
		t.Errorf("told of %d", told)
	}
}
