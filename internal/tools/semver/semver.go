// Package semver knows the form of a release's version: semver.org's, with a "v" as Go asks for.
package semver

import (
	"fmt"
	"regexp"
)

var form = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

// Check reports a version that has another form, such as 1.2 or v1.2.
func Check(version string) error {
	if !form.MatchString(version) {
		return fmt.Errorf("the version %q does not have the form v1.2.3", version)
	}
	return nil
}
