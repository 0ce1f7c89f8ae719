//go:build !race

package dirserver

const raceDetector = false
