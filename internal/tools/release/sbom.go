package main

import (
	"debug/buildinfo"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"strings"
)

// component is a part of the program in CycloneDX 1.6 (ECMA-424).
type component struct {
	Type    string `json:"type"`
	BOMRef  string `json:"bom-ref"`
	Name    string `json:"name"`
	Version string `json:"version"`
	PURL    string `json:"purl,omitempty"`
	Hashes  []hash `json:"hashes,omitempty"`
}

type hash struct {
	Alg     string `json:"alg"`
	Content string `json:"content"`
}

// sbom lists the modules in a binary, by what the linker wrote into it.
func sbom(bin, version string) ([]byte, error) {
	info, err := buildinfo.ReadFile(bin)
	if err != nil {
		return nil, err
	}
	main := module("application", info.Main.Path, version)
	// The Go project names its standard library so in its vulnerability database.
	parts := []component{module("library", "stdlib", "v"+strings.TrimPrefix(info.GoVersion, "go"))}
	for _, m := range info.Deps {
		c, err := part(m, version)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", bin, err)
		}
		parts = append(parts, c)
	}
	var refs []string
	for _, c := range parts {
		refs = append(refs, c.BOMRef)
	}
	type dependency struct {
		Ref       string   `json:"ref"`
		DependsOn []string `json:"dependsOn"`
	}
	// No serial number and no time: two builds give the same.
	text, err := json.MarshalIndent(map[string]any{
		"bomFormat":    "CycloneDX",
		"specVersion":  "1.6",
		"version":      1,
		"metadata":     map[string]any{"component": main},
		"components":   parts,
		"dependencies": []dependency{{main.BOMRef, refs}},
	}, "", "  ")
	return append(text, '\n'), err
}

// own are the modules of which devp2p/, a module of the same repository, takes the directories.
var own = map[string]string{
	"github.com/chivenet/chive":          "../",
	"github.com/chivenet/chive/chivelab": "../chivelab",
}

// part is a module in a binary as a component.
func part(m *debug.Module, version string) (component, error) {
	if dir := own[m.Path]; dir != "" && m.Replace != nil && m.Replace.Path == dir && m.Replace.Version == "(devel)" && m.Replace.Sum == "" {
		// A directory has no sum. It is of the same commit, so it has the release's version.
		return module("library", m.Path, version), nil
	}
	if m.Replace != nil {
		m = m.Replace
	}
	c := module("library", m.Path, m.Version)
	sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:"))
	if err != nil || len(sum) != 32 {
		return component{}, fmt.Errorf("the sum of module %s is %q", m.Path, m.Sum)
	}
	// go.sum's hash of the module, which is over a list of its files.
	c.Hashes = []hash{{"SHA-256", fmt.Sprintf("%x", sum)}}
	return c, nil
}

// module is a Go module as a component.
func module(kind, path, version string) component {
	purl := "pkg:golang/" + path + "@" + version
	return component{Type: kind, BOMRef: purl, Name: path, Version: version, PURL: purl}
}
