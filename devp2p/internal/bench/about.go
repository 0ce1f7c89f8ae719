package bench

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/chivenet/chive/lab"
	"github.com/chivenet/chive/lab/host"
	"github.com/chivenet/chive/program"
)

// About says where a report came about.
type About struct {
	Day        string `json:"day"`
	Chive      string `json:"chive"`
	Tor        string `json:"tor,omitempty"` // empty: not installed
	Go         string `json:"go"`
	System     string `json:"system"`
	Processor  string `json:"processor,omitempty"`
	Processors int    `json:"processors"`
	Namespace  bool   `json:"namespace"` // with a loopback that acknowledges at once
}

// Here describes this machine and its programs.
func Here() About {
	a := About{Day: time.Now().UTC().Format(time.DateOnly), Chive: program.Version(), Go: runtime.Version(),
		System: runtime.GOOS + "/" + runtime.GOARCH, Processors: runtime.NumCPU(), Namespace: host.InNamespace()}
	if tor, err := lab.FindTor(""); err == nil {
		if out, err := exec.Command(tor, "--version").Output(); err == nil {
			a.Tor, _, _ = strings.Cut(string(out), "\n")
			a.Tor = strings.TrimSuffix(a.Tor, ".")
		}
	}
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "model name" {
				a.Processor = strings.TrimSpace(v)
				break
			}
		}
	}
	return a
}
