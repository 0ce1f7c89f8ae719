//go:build race

package relay

const raceDetector = true // memory is not what it is otherwise
