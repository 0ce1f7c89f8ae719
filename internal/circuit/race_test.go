//go:build race

package circuit_test

const raceDetector = true // memory is not what it is otherwise
