//go:build !race

package dirclient

const raceDetector = false
