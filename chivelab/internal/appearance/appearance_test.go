package appearance

import (
	"context"
	"log/slog"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/labtest"
)

// TestAppearance runs C tor's client twice, once with another option, and Chive's, and compares them.
func TestAppearance(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes two minutes and a half")
	}
	tor, _, err := ctor.Find("")
	labtest.Need(t, "C tor", err)
	v, err := TorVersion(t.Context(), tor)
	if err != nil {
		t.Fatal(err)
	}
	allowed, err := Allowed(v)
	if err != nil {
		t.Fatal(err)
	}
	chive := buildChive(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	s, err := Run(ctx, Plan{
		Tor: tor, Clients: 4, Idle: 45 * time.Second, Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
		Subjects: []Subject{
			{Name: "tor", Command: []string{tor}},
			{Name: "tor again", Command: []string{tor}},
			{Name: "tor without padding", Command: []string{tor}, Torrc: []string{"ConnectionPadding 0"}, Plain: true},
			{Name: "chive", Command: []string{chive, "tor"}, Chive: true},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range Judge(s.Compare("tor", "tor again"), nil) {
		t.Errorf("C tor beside itself: %s", w)
	}
	different := map[string]bool{}
	for _, r := range s.Compare("tor", "tor without padding") {
		different[r.Name] = r.Different
	}
	for _, name := range []string{"padding-negotiate", "padding-sends", "cells", "link-first"} {
		if !different[name] {
			t.Errorf("C tor without padding shows no difference in %s", name)
		}
	}
	for _, w := range Judge(s.Compare("tor", "chive"), allowed) {
		t.Errorf("Chive beside C tor: %s", w)
	}
}

func buildChive(t *testing.T) string {
	t.Helper()
	chive := filepath.Join(t.TempDir(), "chive")
	build := exec.Command("go", "build", "-o", chive, "github.com/chivenet/chive/cmd/chive")
	build.Stdout, build.Stderr = t.Output(), t.Output()
	if err := build.Run(); err != nil {
		t.Fatal(err)
	}
	return chive
}
