//go:build !race

package simnet_test

const raceDetector = false
