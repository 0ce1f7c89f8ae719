package authority

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

// Bandwidths are the measurements of a bandwidth file (bandwidth-file-spec),
// in kilobytes a second.
type Bandwidths struct {
	At      time.Time
	Of      map[ident.RSAID]uint32
	Headers string // arguments of a vote's "bandwidth-file-headers" line
	Digest  string // arguments of its "bandwidth-file-digest" line
}

// Bounds on the part of a file that is read, and on the headers that votes
// repeat, as in C tor.
const (
	maxBandwidthFile    = 64 << 20
	maxBandwidthHeaders = 50
	maxHeadersLine      = 1024
	maxMeasurementAge   = 3 * 24 * time.Hour
)

// headersEnd ends the header lines of a file.
const headersEnd = "====="

// ParseBandwidths reads a bandwidth file of any version. It skips lines that are
// neither a header nor a relay's. A file older than three days is an error, but
// the result has its digest.
func ParseBandwidths(file []byte, now time.Time) (*Bandwidths, error) {
	sum := sha256.Sum256(file)
	b := &Bandwidths{Of: map[ident.RSAID]uint32{}, Digest: "sha256=" + base64.RawStdEncoding.EncodeToString(sum[:])}
	if len(file) > maxBandwidthFile {
		return b, fault.New(fault.Resource, "bandwidth file of %d bytes", len(file))
	}
	first, rest, ended := bytes.Cut(file, []byte("\n"))
	stamp, err := strconv.ParseInt(string(first), 10, 63)
	if err != nil || !ended || stamp < 0 {
		return b, fault.New(fault.Config, "bandwidth file: the first line %.40q is no time", first)
	}
	b.At = time.Unix(stamp, 0)
	if now.Sub(b.At) > maxMeasurementAge {
		return b, fault.New(fault.Config, "bandwidth file: it is %v old", now.Sub(b.At).Truncate(time.Minute))
	}
	headers := []string{"timestamp=" + string(first)}
	head := true
	for len(rest) > 0 {
		var raw []byte
		if raw, rest, ended = bytes.Cut(rest, []byte("\n")); !ended {
			break // a line without an end may be half written
		}
		line := string(raw)
		id, bw, ok := parseBandwidthLine(line)
		switch {
		case ok:
			head = false
			b.Of[id] = bw
		case line == headersEnd || line == "====":
			head = false
		case head && isHeader(line) && len(headers) < maxBandwidthHeaders:
			headers = append(headers, line)
		}
	}
	if b.Headers = strings.Join(headers, " "); len(b.Headers) > maxHeadersLine {
		b.Headers = ""
	}
	return b, nil
}

func isHeader(line string) bool {
	k, _, ok := strings.Cut(line, "=")
	return ok && k != "" && !strings.Contains(line, " ")
}

// parseBandwidthLine reads "node_id=$HEX bw=NUMBER ..." in any order. A line
// with "vote=0" does not count.
func parseBandwidthLine(line string) (id ident.RSAID, bw uint32, ok bool) {
	var haveID, haveBW bool
	for _, w := range strings.Fields(line) {
		k, v, _ := strings.Cut(w, "=")
		switch k {
		case "vote":
			if strings.HasPrefix(v, "0") {
				return id, 0, false
			}
		case "bw":
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil || n < 0 || haveBW {
				return id, 0, false
			}
			bw, haveBW = uint32(min(n, math.MaxInt32)), true
		case "node_id":
			v = strings.TrimPrefix(v, "$")
			var err error
			if id, err = ident.ParseRSAID(v); err != nil || len(v) != 40 || haveID {
				return id, 0, false
			}
			haveID = true
		}
	}
	return id, bw, haveID && haveBW
}
