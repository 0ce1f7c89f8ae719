package torrc

import (
	"reflect"
	"testing"
)

// TestContinued: lines are joined as C tor joins them: "tor --dump-config short" says what comes of them.
func TestContinued(t *testing.T) {
	for text, want := range map[string][]Line{
		"ExitPolicy accept *:8\\\n0\nNickname x": {{"f", 1, "ExitPolicy", "accept *:80", false}, {"f", 3, "Nickname", "x", false}},
		"ContactInfo a\\\n  b \\\n\tc":           {{"f", 1, "ContactInfo", "a  b \tc", false}},
		"MyFamily A,\\\n# one of them\nB":        {{"f", 1, "MyFamily", "A,B", false}},
		"SocksPort \\\n9050":                     {{"f", 1, "SocksPort", "9050", false}},
		"SocksPort\\\n 9050\\":                   {{"f", 1, "SocksPort", `9050\`, false}}, // the end of the file is no next line
		`Log notice file C:\x\`:                  {{"f", 1, "Log", `notice file C:\x\`, false}},
	} {
		got, err := Lines(Source{"f", []byte(text)}, nil)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v, want %v (%v)", text, got, want, err)
		}
	}
}

// TestLogTarget: where a line of the log goes, and the least level that goes there.
func TestLogTarget(t *testing.T) {
	for value, want := range map[string][2]string{
		"notice":                             {"info", ""},
		"notice stdout":                      {"info", "stdout"},
		"info-warn [net]debug file \"/a b\"": {"debug", "file /a b"},
		"err FILE /x":                        {"error", "file /x"},
		"warn syslog":                        {"warn", "syslog"},
	} {
		level, to, err := LogTarget(value)
		if err != nil || level != want[0] || to != want[1] {
			t.Errorf("%s: %q %q %v", value, level, to, err)
		}
	}
	for _, bad := range []string{"", "loud", "[net file /x", "file /x"} {
		if _, _, err := LogTarget(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
