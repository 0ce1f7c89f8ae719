package netdoc

import (
	"strings"
	"testing"
	"time"
)

func TestParseTime(t *testing.T) {
	for text, want := range map[string]string{
		"2028-02-29 23:59:59": "2028-02-29T23:59:59Z",
		"2000-02-29 00:00:00": "2000-02-29T00:00:00Z",
		"2026-12-31 23:59:60": "2027-01-01T00:00:00Z",
		"2038-01-19 03:14:08": "2038-01-19T03:14:08Z",
		"2026-11-21 23:05:07": "2026-11-21T23:05:07Z",
		"2027-02-29 00:00:00": "",
		"2100-02-29 00:00:00": "",
		"2027-02-30 23:59:60": "",
		"2026-04-31 12:00:00": "",
		"2026-11-21 24:00:00": "",
		"2026-11-21 23:59:61": "",
		"2026-11-21 23:60:00": "",
		"2026-00-21 23:00:00": "",
		"2026-13-01 23:00:00": "",
		"1969-12-31 23:59:59": "",
	} {
		d, c, _ := strings.Cut(text, " ")
		got, err := parseTime([]byte(d), []byte(c))
		if want == "" {
			if err == nil {
				t.Errorf("%s: %v", text, got)
			}
		} else if err != nil || got.Format(time.RFC3339) != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

// Documents hold UTC, whatever the zone of the times that they are made of.
func TestTimesAreUTC(t *testing.T) {
	at := time.Date(2027, 3, 14, 1, 59, 59, 999, time.FixedZone("", -5*3600))
	if got := string(appendTime(nil, at)); got != "2027-03-14 06:59:59" {
		t.Error(got)
	}
}
