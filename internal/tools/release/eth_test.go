package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// checkEth installs the Debian package of chive-eth below a directory, and removes it; it
// looks into the list of modules and, if rpm is here, into the RPM.
func checkEth(t *testing.T, dir, version string) {
	t.Helper()
	boms, _ := filepath.Glob(dir + "/chive-eth-v*.cdx.json")
	debs, _ := filepath.Glob(dir + "/chive-eth_*.deb")
	rpms, _ := filepath.Glob(dir + "/chive-eth-[0-9]*.rpm")
	if len(boms) != 1 || len(debs) != 1 || len(rpms) != 1 {
		t.Fatal(boms, debs, rpms)
	}
	bom := read(t, boms[0])
	for _, want := range []string{`"pkg:golang/` + chive + `/devp2p@` + version + `"`, `"pkg:golang/` + chive + `@` + version + `"`, `"pkg:golang/github.com/ethereum/go-ethereum@v1.`} {
		if !bytes.Contains(bom, []byte(want)) {
			t.Errorf("the list of modules of chive-eth lacks %s", want)
		}
	}
	root := filepath.Join(t.TempDir(), "root")
	admin := filepath.Join(root, "var/lib/dpkg")
	for _, d := range []string{"info", "updates"} {
		if err := os.MkdirAll(filepath.Join(admin, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"status", "available"} {
		if err := os.WriteFile(filepath.Join(admin, f), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	dpkg := []string{"--root=" + root, "--force-not-root", "--force-script-chrootless", "--force-depends", "--force-architecture", "--log=/dev/null", "--no-triggers"}
	// Its scripts would speak to the systemd of this machine: they are read, and left out.
	control := filepath.Join(t.TempDir(), "control")
	command(t, dir, "dpkg-deb", "-R", debs[0], control)
	for _, script := range []string{"postinst", "prerm", "postrm"} {
		text := string(read(t, filepath.Join(control, "DEBIAN", script)))
		if script != "postrm" && !strings.Contains(text, "chive-eth-relay.service") || strings.Contains(text, "chive-proxy") {
			t.Errorf("%s of chive-eth:\n%s", script, text)
		}
		if err := os.Remove(filepath.Join(control, "DEBIAN", script)); err != nil {
			t.Fatal(err)
		}
	}
	quiet := filepath.Join(t.TempDir(), "quiet.deb")
	command(t, dir, "dpkg-deb", "-b", "--root-owner-group", "-Znone", control, quiet)
	command(t, dir, "dpkg", append(dpkg, "-i", quiet)...)

	program := filepath.Join(root, "usr/bin/chive-eth")
	if got := command(t, dir, program, "--version"); got != "chive-eth version "+version+"\n" {
		t.Errorf("chive-eth --version: %s", got)
	}
	unit := filepath.Join(root, "usr/lib/systemd/system/chive-eth-relay.service")
	if text := string(read(t, unit)); strings.Contains(text, "/usr/local") || !strings.Contains(text, "=/usr/bin/chive-eth relay ") {
		t.Errorf("the unit does not start the package's binary:\n%s", text)
	}
	here := filepath.Join(t.TempDir(), filepath.Base(unit))
	if err := os.WriteFile(here, bytes.ReplaceAll(read(t, unit), []byte("/usr/bin/chive-eth"), []byte(program)), 0o644); err != nil {
		t.Fatal(err)
	}
	if out := command(t, dir, "systemd-analyze", "verify", here); strings.Contains(out, filepath.Base(unit)) {
		t.Errorf("%s: %s", unit, out)
	}
	if _, err := os.Stat(filepath.Join(root, "usr/share/man/man1/chive-eth-relay.1.gz")); err != nil {
		t.Error(err)
	}
	for file, want := range map[string]string{
		"usr/share/bash-completion/completions/chive-eth":    "complete ",
		"usr/share/zsh/vendor-completions/_chive-eth":        "#compdef chive-eth",
		"usr/share/fish/vendor_completions.d/chive-eth.fish": "complete -c chive-eth",
		"usr/share/doc/chive-eth/copyright":                  "BSD 3-Clause",
		"usr/share/doc/chive-eth/devp2p.md":                  "chive-eth relay",
		"etc/chive/eth-relay.env":                            "CHIVE_ETH_FLAGS",
	} {
		if !bytes.Contains(read(t, filepath.Join(root, file)), []byte(want)) {
			t.Errorf("%s does not contain %q", file, want)
		}
	}
	command(t, dir, "dpkg", append(dpkg, "-r", "chive-eth")...)
	if _, err := os.Stat(program); !os.IsNotExist(err) {
		t.Errorf("after the removal: %v", err)
	}
	if _, err := os.Stat(filepath.Join(root, "etc/chive/eth-relay.env")); err != nil {
		t.Errorf("the removal took the settings: %v", err)
	}

	if _, err := exec.LookPath("rpm"); err != nil {
		return // checkRPM says so
	}
	if all := command(t, dir, "rpm", "-qlp", rpms[0]); !strings.Contains(all, "/usr/bin/chive-eth\n") || !strings.Contains(all, "/chive-eth-relay.service\n") {
		t.Errorf("the RPM of chive-eth has %s", all)
	}
}
