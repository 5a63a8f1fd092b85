// As load.c: this file makes `load.go` a program of Go with C, whose libc loads the vDSO too.
package main

// #include <time.h>
import "C"

func init() { C.time(nil) }
