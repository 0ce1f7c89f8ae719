//go:build !race

package layer

const raceDetector = false
