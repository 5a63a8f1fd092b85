// The protocol of load.c, in Go.
package main

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"strconv"
	"time"
	_ "unsafe" // for go:linkname
)

// Returns CLOCK_MONOTONIC, of which the package time has only differences.
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

const batch = 1000

func fastest(calls int) int64 {
	fastest := int64(math.MaxInt64)
	for n := 0; n < calls/batch; n++ {
		begin := nanotime()
		for i := 1; i < batch; i++ {
			nanotime()
		}
		fastest = min(fastest, nanotime()-begin)
	}
	return fastest
}

func main() {
	fmt.Println("ready")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		calls, _ := strconv.Atoi(lines.Text())
		fmt.Printf("{\"monotonic\":%s,\"realtime\":%s,\"batch\":[%d,%d]}\n",
			measure(nanotime, calls), measure(realtime, calls), batch, fastest(calls))
	}
}
