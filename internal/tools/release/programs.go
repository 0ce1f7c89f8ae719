package main

// program is one of the programs of a release. Each has archives and packages of its own.
type program struct {
	name   string
	module string   // the directory of its Go module
	tags   string   // of the build
	man    []string // writes its manual pages, run by go in the module with a directory after it
	units  string   // the directory with its units of systemd
	nfpm   string   // what is in its packages
	docs   []string // what is in its archives, besides the binary and texts
	beside []beside // packages of Debian that have no program of their own
}

// beside is a package of Debian without a program.
type beside struct{ name, nfpm string }

var programs = []program{
	{
		// The tag leaves out HTTP/2, as in the Makefile.
		name: "chive", module: ".", tags: "nethttpomithttp2", man: []string{"./internal/tools/gendocs", "man"}, units: "contrib/systemd", nfpm: "packaging/nfpm.yaml",
		docs: []string{"README.md", "LICENSE", "CHANGELOG.md", "SECURITY.md"}, beside: []beside{{"chive-tor", "packaging/nfpm-tor.yaml"}},
	},
	{
		name: "chive-eth", module: "devp2p", man: []string{"./cmd/chive-eth", "manual"}, units: "devp2p/contrib/systemd", nfpm: "packaging/nfpm-eth.yaml",
		docs: []string{"docs/devp2p.md", "LICENSE", "CHANGELOG.md", "SECURITY.md"},
	},
}

// binary is the program's name on a platform.
func (p program) binary(t target) string {
	if t.os == "windows" {
		return p.name + ".exe"
	}
	return p.name
}
