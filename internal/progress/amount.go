package progress

import (
	"fmt"
	"time"
)

// Amount draws how many bytes of something are there, and how many come in a second. If
// total is below 0, it is unknown, and there is no bar.
func (b *Bar) Amount(name string, have, total, rate int64) {
	text := Bytes(have)
	if total >= 0 {
		text += " of " + Bytes(total)
	}
	if rate > 0 {
		text += ", " + Bytes(rate) + "/s"
	}
	if total > have && rate > 0 {
		text += fmt.Sprintf(", %v left", time.Duration((total-have)/rate)*time.Second)
	}
	if name != "" {
		text += "  " + name
	}
	if total < 0 {
		b.line(text)
		return
	}
	b.Draw(text, int(have>>10), max(int(total>>10), 1))
}

// Bytes writes a number of bytes for people: three digits and a decimal unit.
func Bytes(n int64) string {
	units := [...]string{"B", "kB", "MB", "GB", "TB", "PB", "EB"}
	f, i := float64(n), 0
	for f >= 999.5 && i < len(units)-1 {
		f /= 1000
		i++
	}
	switch {
	case i == 0:
		return fmt.Sprintf("%d B", n)
	case f < 9.995:
		return fmt.Sprintf("%.2f %s", f, units[i])
	case f < 99.95:
		return fmt.Sprintf("%.1f %s", f, units[i])
	}
	return fmt.Sprintf("%.0f %s", f, units[i])
}
