package commandtest

import "testing"

func TestRough(t *testing.T) {
	for _, c := range []struct{ message, flag, value string }{
		{"socks: listen: listen tcp 127.0.0.1:1: bind: address already in use", "socks", "127.0.0.1:1"},
		{"--socks: listening: listen at 127.0.0.1:1: address already in use", "socks", "127.0.0.1:1"},
		{"--log-file: the log file cannot be opened: open /x/y: is a directory", "log-file", "/x/y"},
		{"--config: open: open /x/y: is a directory", "config", "/x/y"},
		{"--mode: what failed: not here: what failed", "mode", "x"},
		{`--data-dir: "/some/dir" is wrong: open /some/dir: no`, "data-dir", "/some/dir"},
		{"--pq: --pq is wrong", "pq", "x"},
		{"--pq: it is is wrong", "pq", "x"},
		{"--pq: it is wrong.. ", "pq", "x"},
		{"--pq: it is wrong..", "pq", "x"},
		{"--pq: it is wrong.", "pq", "x"},
		{"--pq: key:: wrong", "pq", "x"},
		{"--pq: line 1\nline 2", "pq", "x"},
		{`invalid argument "x" for "--port" flag: strconv.ParseUint: parsing "x": invalid syntax`, "port", "x"},
		{"--at: address foo: missing port in address", "at", "foo"},
		{"it is wrong", "pq", "other"},
		{"it is wrong", "", "other"},
	} {
		if len(Rough(c.message, c.flag, c.value)) == 0 {
			t.Errorf("nothing is found wrong with %q", c.message)
		}
	}
	for _, c := range []struct{ message, flag, value string }{
		{"--socks: listen at 127.0.0.1:1: address already in use (another program has this port: end it, or choose another port)", "socks", "127.0.0.1:1"},
		{`/etc/c.toml:3: num-entry-guards: 21 is not from 0 to 20`, "num-entry-guards", "21"},
		{`"some.." is not NAME KEY=VALUE ...`, "", "some.."},
		{"open /a/b/c/some-file: not a directory", "", "/a/b/c/some-file/below"},
		{`unknown format "wrods"; did you mean "words"?`, "", "wrods"},
	} {
		if wrong := Rough(c.message, c.flag, c.value); len(wrong) > 0 {
			t.Errorf("%q: %q", c.message, wrong)
		}
	}
}
