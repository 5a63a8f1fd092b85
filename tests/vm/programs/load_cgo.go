// This file makes `load.go` a program of Go with C, whose libc also loads the vDSO.
package main

// #include <time.h>
import "C"

func init() { C.time(nil) }
