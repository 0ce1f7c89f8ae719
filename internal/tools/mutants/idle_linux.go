package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// awaitIdle returns true when a process and those that it started do nothing for so long: nothing runs, nothing
// wants to, and no processor time is used. A machine that does other work does not change that.
func awaitIdle(ctx context.Context, process int, long time.Duration) bool {
	const step = 200 * time.Millisecond
	tick := time.NewTicker(step)
	defer tick.Stop()
	var before uint64
	var idle time.Duration
	for {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
		used, busy := use(strconv.Itoa(process))
		if idle += step; busy || used != before {
			idle = 0
		}
		if before = used; idle >= long {
			return true
		}
	}
}

// use returns the processor time of a process and of those that it started, in ticks, and whether a thread of
// them wants to run.
func use(process string) (ticks uint64, busy bool) {
	f := stat("/proc/" + process + "/stat")
	if len(f) < 15 {
		return 0, false
	}
	for _, field := range f[11:13] {
		n, _ := strconv.ParseUint(string(field), 10, 64)
		ticks += n
	}
	threads, _ := filepath.Glob("/proc/" + process + "/task/*")
	for _, t := range threads {
		if f := stat(t + "/stat"); len(f) > 0 && string(f[0]) != "S" && string(f[0]) != "Z" {
			busy = true
		}
		children, _ := os.ReadFile(t + "/children")
		for child := range bytes.FieldsSeq(children) {
			n, b := use(string(child))
			ticks, busy = ticks+n, busy || b
		}
	}
	return ticks, busy
}

// stat returns the fields behind the name (proc_pid_stat(5)); none if the process has ended.
func stat(name string) [][]byte {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil
	}
	return bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
}
