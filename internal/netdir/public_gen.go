//go:build ignore

// Writes public.txt from C tor's lists of authorities and fallback directories:
//
//	go run public_gen.go TOR-SOURCE > public.txt
package main

import (
	"fmt"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

var (
	comment = regexp.MustCompile(`(?s)/\*.*?\*/|//[^\n]*`)
	quoted  = regexp.MustCompile(`"([^"]*)"`)
)

// entries returns the string constants of a C list, adjacent ones joined.
func entries(path string) [][]string {
	b, err := os.ReadFile(path)
	if err != nil {
		log.Fatal(err)
	}
	var list [][]string
	for e := range strings.SplitSeq(comment.ReplaceAllString(string(b), ""), ",") { // no string holds a comma
		var s strings.Builder
		for _, m := range quoted.FindAllStringSubmatch(e, -1) {
			s.WriteString(m[1])
		}
		if f := strings.Fields(s.String()); len(f) > 0 {
			list = append(list, f)
		}
	}
	return list
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: go run public_gen.go TOR-SOURCE")
	}
	dir := filepath.Join(os.Args[1], "src/app/config")
	fmt.Println("# The public Tor network, written by public_gen.go from src/app/config/auth_dirs.inc and")
	fmt.Println("# fallback_dirs.inc of C tor. Fields: authority NICKNAME V3IDENT RSA DIRPORT ORPORT...")
	fmt.Println("# and fallback RSA ORPORT...; authorities without a v3 identity (for bridges) are left out.")
	for _, f := range entries(filepath.Join(dir, "auth_dirs.inc")) {
		kv, rest := options(f[1:])
		if kv["v3ident"] == "" {
			continue
		}
		host := rest[0][:strings.LastIndex(rest[0], ":")]
		fmt.Println(strings.TrimSpace(strings.Join([]string{"authority", f[0], kv["v3ident"], strings.Join(rest[1:], ""), rest[0], host + ":" + kv["orport"], kv["ipv6"]}, " ")))
	}
	for _, f := range entries(filepath.Join(dir, "fallback_dirs.inc")) {
		kv, rest := options(f)
		fmt.Println(strings.TrimSpace(strings.Join([]string{"fallback", kv["id"], rest[0] + ":" + kv["orport"], kv["ipv6"]}, " ")))
	}
}

func options(f []string) (map[string]string, []string) {
	kv := map[string]string{}
	var rest []string
	for _, w := range f {
		if k, v, ok := strings.Cut(w, "="); ok {
			kv[k] = v
		} else {
			rest = append(rest, w)
		}
	}
	return kv, rest
}
