//go:build race

package layer

const raceDetector = true // a pool drops some of what it is given
