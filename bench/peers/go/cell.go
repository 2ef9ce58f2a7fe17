package main

import (
	"encoding/binary"
	"os"

	"golang.org/x/sys/unix"
)

// What the lock protects: three words in a file, read and then written.
type cell struct{ file *os.File }

// nil: nothing to protect.
func openCell(path *string) *cell {
	if path == nil {
		return nil
	}
	file, err := os.OpenFile(*path, os.O_RDWR, 0)
	if err != nil {
		panic(err)
	}
	return &cell{file}
}

func (c *cell) read() (counter, lastWorker, endedAt int64) {
	var bytes [24]byte
	if _, err := c.file.ReadAt(bytes[:], 0); err != nil {
		panic(err)
	}
	word := func(n int) int64 { return int64(binary.LittleEndian.Uint64(bytes[8*n:])) }
	return word(0), word(1), word(2)
}

func (c *cell) write(words ...int64) {
	var bytes [24]byte
	for n, word := range words {
		binary.LittleEndian.PutUint64(bytes[8*n:], uint64(word))
	}
	if _, err := c.file.WriteAt(bytes[:], 0); err != nil {
		panic(err)
	}
}

// CLOCK_MONOTONIC, the same in all processes of the machine.
func nanos() int64 {
	var time unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &time); err != nil {
		panic(err)
	}
	return time.Nano()
}
