// As load.c.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"time"
	_ "unsafe" // for go:linkname
)

// CLOCK_MONOTONIC, which the package time has only as a difference.
//
//go:linkname nanotime runtime.nanotime
func nanotime() int64

func realtime() int64 { return time.Now().UnixNano() }

func measure(clock func() int64, calls int) string {
	first := clock()
	last, back := first, 0
	for i := 1; i < calls; i++ {
		now := clock()
		if now < last {
			back++
		}
		last = now
	}
	return fmt.Sprintf("[%d,%d,%d,%d,1]", calls, back, first, last)
}

func main() {
	fmt.Println("ready")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		calls, _ := strconv.Atoi(lines.Text())
		fmt.Printf("{\"monotonic\":%s,\"realtime\":%s}\n", measure(nanotime, calls), measure(realtime, calls))
	}
}
