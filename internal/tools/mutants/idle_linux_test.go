package main

import (
	"testing"
	"time"
)

// TestHangs: tests that wait for what never comes end soon, and the mistake is noticed. Those that work are
// waited for.
func TestHangs(t *testing.T) {
	o := module(t, "package p\n\nvar c = make(chan int, 1)\n\nfunc f(n int) int {\n\tc <- n\n\treturn <-c\n}\n", `package p

import (
	"testing"
	"time"
)

func TestF(t *testing.T) {
	timer := time.NewTimer(time.Hour) // so that the runtime does not notice
	defer timer.Stop()
	if f(3) != 3 {
		t.Error()
	}
}

func TestWorks(t *testing.T) {
	for began := time.Now(); time.Since(began) < time.Second; {
	}
}
`)
	p := o.plan(t)
	for i := range p.mutants {
		binary, err := p.with(i + 1)
		if err != nil {
			t.Fatal(err)
		}
		if good, who := p.once(t.Context(), "p", binary, some{limit: time.Hour, idle: time.Second / 2}); good || who != late {
			t.Errorf("%s: %v, %q", p.mutants[i].key, good, who)
		}
		if good, who := p.once(t.Context(), "p", binary, some{pattern: "^TestWorks$", limit: time.Hour, idle: time.Second / 2}); !good {
			t.Errorf("while it works: %q", who)
		}
	}
	if len(p.mutants) == 0 {
		t.Error("no mistakes")
	}
}
