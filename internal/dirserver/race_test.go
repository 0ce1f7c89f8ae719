//go:build race

package dirserver

const raceDetector = true // memory is not what it is otherwise
