//go:build race

package dirclient

const raceDetector = true // memory is not what it is otherwise
