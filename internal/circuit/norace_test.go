//go:build !race

package circuit_test

const raceDetector = false
