package netns

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestNamespace(t *testing.T) {
	if err := Available(); err != nil {
		t.Skip("SKIPPED:", err)
	}
	name := fmt.Sprint("chive-test-", os.Getpid())
	ns, err := New(t.Context(), name)
	if err != nil && strings.Contains(err.Error(), "Operation not permitted") {
		t.Skip("SKIPPED:", err) // root of a container that may not
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := ns.Close(); err != nil {
			t.Error(err)
		}
	}()
	out, err := ns.Command(t.Context(), "ip", "route", "show", "table", "local").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if n := strings.Count(string(out), "quickack 1"); n != len(routes) {
		t.Errorf("%d routes have quickack:\n%s", n, out)
	}
	out, err = ns.Command(t.Context(), "sh", "-c", "echo $"+inside).CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != name {
		t.Errorf("environment: %q, %v", out, err)
	}
	if Inside() {
		t.Error("this process claims to be inside")
	}
	if other, err := New(t.Context(), name); err == nil {
		other.Close()
		t.Error("a namespace that exists was made again")
	}
}
