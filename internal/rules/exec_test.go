package rules

import (
	"os/exec"
	"strings"
	"testing"
)

// TestStackStaysOut: programs that import a public package do not get the TCP/IP stack of chive exec.
func TestStackStaysOut(t *testing.T) {
	deps := func(packages ...string) string {
		cmd := exec.Command("go", append([]string{"list", "-deps"}, packages...)...)
		cmd.Env = append(cmd.Environ(), "GOOS=linux", "CGO_ENABLED=0")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go list: %v", err)
		}
		return string(out)
	}
	const stack = "gvisor.dev/gvisor"
	if all := deps(".", "./relay", "./authority", "./fte", "./fte/lang", "./socks", "./lab"); strings.Contains(all, stack) {
		t.Errorf("a public package imports %s", stack)
	}
	if !strings.Contains(deps("./internal/cli"), stack) {
		t.Error("the test is blind: the command line does not import it either")
	}
	for _, system := range []string{"GOOS=windows", "GOOS=darwin"} {
		cmd := exec.Command("go", "list", "-deps", "./internal/cli")
		cmd.Env = append(cmd.Environ(), system, "CGO_ENABLED=0")
		if out, err := cmd.Output(); err != nil || strings.Contains(string(out), stack) {
			t.Errorf("%s: the program has %s, %v", system, stack, err)
		}
	}
}
