//go:build race

package simnet_test

const raceDetector = true // memory is not what it is otherwise
