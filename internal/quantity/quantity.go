// Package quantity reads sizes and times as users write them: with Go's units, and with the
// words of C tor's configuration files (tor(1), "Configuration file format").
package quantity

import (
	"strconv"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// sizes are the units of Bytes, small and singular. As in C tor, a thousand is 1024.
var sizes = map[string]float64{
	"": 1, "b": 1, "byte": 1, "bit": 1.0 / 8,
	"k": 1 << 10, "kb": 1 << 10, "kib": 1 << 10, "kbyte": 1 << 10, "kilobyte": 1 << 10, "kbit": 1 << 7, "kilobit": 1 << 7,
	"m": 1 << 20, "mb": 1 << 20, "mib": 1 << 20, "mbyte": 1 << 20, "megabyte": 1 << 20, "mbit": 1 << 17, "megabit": 1 << 17,
	"g": 1 << 30, "gb": 1 << 30, "gib": 1 << 30, "gbyte": 1 << 30, "gigabyte": 1 << 30, "gbit": 1 << 27, "gigabit": 1 << 27,
	"t": 1 << 40, "tb": 1 << 40, "tib": 1 << 40, "tbyte": 1 << 40, "terabyte": 1 << 40, "tbit": 1 << 37, "terabit": 1 << 37,
}

// times are the units of Interval, small and singular.
var times = map[string]time.Duration{
	"msec": time.Millisecond, "millisecond": time.Millisecond,
	"": time.Second, "second": time.Second, "sec": time.Second,
	"minute": time.Minute, "min": time.Minute, "hour": time.Hour, "hr": time.Hour,
	"day": 24 * time.Hour, "week": 7 * 24 * time.Hour, "month": 2629728 * time.Second,
}

// Bytes reads a number of bytes with an optional unit, such as "1 MByte", "512MB" or "8 kbits".
// Hexadecimal and octal numbers of Go's form have no unit.
func Bytes(s string) (uint64, error) {
	if n, err := strconv.ParseUint(s, 0, 62); err == nil {
		return n, nil
	}
	number, unit := numberAndUnit(s)
	u, ok := sizes[unit]
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || !ok || v*u >= 1<<62 {
		return 0, fault.New(fault.Config, "%q is not a number of bytes, such as 1048576, 512MB or \"1 GByte\"", s)
	}
	return uint64(v * u), nil
}

// Interval reads a time as C tor does: a number and an optional unit, such as "10 minutes". A
// number alone counts seconds.
func Interval(s string) (time.Duration, error) {
	number, unit := numberAndUnit(s)
	u, ok := times[unit]
	v, err := strconv.ParseFloat(number, 64) // "1.5 hours" is one
	if err != nil || !ok || v >= 1<<31 || v*float64(u) >= 1<<62 {
		return 0, fault.New(fault.Config, "%q is not a time", s)
	}
	return time.Duration(v * float64(u)).Truncate(min(u, time.Second)), nil
}

// Duration reads a time in Go's form, such as "1m30s", or in C tor's, with a unit.
func Duration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err == nil {
		return d, nil
	}
	if _, unit := numberAndUnit(s); unit != "" {
		if d, err := Interval(s); err == nil {
			return d, nil
		}
	} else if _, err := strconv.ParseFloat(s, 64); err == nil {
		return 0, fault.New(fault.Config, "%s has no unit: write %ss for seconds, %sm for minutes", s, s, s)
	}
	return 0, fault.New(fault.Config, "%q is not a time, such as 30s, 1m30s or \"2 hours\"", s)
}

// numberAndUnit splits "10 MBytes" and "10MB"; the unit is small and singular.
func numberAndUnit(s string) (number, unit string) {
	s = strings.TrimSpace(s)
	i := strings.IndexFunc(s, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if i < 0 {
		return s, ""
	}
	unit = strings.ToLower(strings.TrimSpace(s[i:]))
	if len(unit) > 1 {
		unit = strings.TrimSuffix(unit, "s")
	}
	return s[:i], unit
}
