package appearance

import (
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/labtest"
)

// TestAnswers puts the same probes to a bridge of C tor's and one of Chive's.
func TestAnswers(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds chive")
	}
	tor, _, err := ctor.Find("")
	labtest.Need(t, "C tor", err)
	chive := buildChive(t)
	first := Subject{Name: "tor", Command: []string{tor}}
	all, err := Answers(t.Context(), t.TempDir(), [2]Subject{first, {Name: "chive", Command: []string{chive, "tor"}, Chive: true}})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range JudgeAnswers(all) {
		t.Error(w)
	}
}

// TestJudgeAnswers: the judge finds a difference that is not known, and one that is gone.
func TestJudgeAnswers(t *testing.T) {
	wrong := JudgeAnswers([]Answer{
		{Name: "same", First: "a", Second: "a"}, {Name: "known", First: "a", Second: "b", Known: "why"},
		{Name: "new", First: "a", Second: "b"}, {Name: "gone", First: "a", Second: "a", Known: "why"},
	})
	if len(wrong) != 2 || !strings.HasPrefix(wrong[0], "new: ") || !strings.HasPrefix(wrong[1], "gone: ") {
		t.Errorf("%q", wrong)
	}
}
