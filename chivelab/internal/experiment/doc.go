// Package experiment measures circuits over emulated links as a file says: how long they take to build, stage by
// stage, their round trips, and what they carry. All nodes are Chive's and run in this process, each with a TCP stack
// of its own. Samples are written as they come, so that an experiment which was ended can go on; a report is made of
// samples alone.
package experiment
