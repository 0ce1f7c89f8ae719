package torrc

import "strings"

// reducedPorts are what C tor's ReducedExitPolicy accepts.
const reducedPorts = "20-23 43 53 79-81 88 110 143 194 220 389 443 464 465 531 543-544 554 563 587 636 706 749 873 902-904 981 989-995 " +
	"1194 1220 1293 1500 1533 1677 1723 1755 1863 2082-2083 2086-2087 2095-2096 2102-2104 3128 3389 3690 4321 4643 5050 5190 5222-5223 5228 " +
	"5900 6660-6669 6679 6697 8000 8008 8074 8080 8082 8087-8088 8232-8233 8332-8333 8443 8888 9418 9999 10000 11371 18080-18081 18089 " +
	"19294 19638 50002 64738"

// addReduced writes the reduced policy after the lines of the file, where C tor has it
// in place of the default one.
func (t *translation) addReduced() {
	if t.reduced == nil || t.exitRelay != nil || t.role != Relay {
		return
	}
	var lines []string
	for p := range strings.FieldsSeq(reducedPorts) {
		lines = append(lines, "accept *:"+p)
	}
	t.set(&Option{Key: "exit-policy"}, *t.reduced, append(lines, "reject *:*"))
}
