package main

import (
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"
)

// Start is the line that starts an open loop: when each worker's arrivals come.
type Start struct {
	Begin    int64     `json:"begin"`
	Arrivals [][]int64 `json:"arrivals"`
}

// What became of one arrival. Moments are nanoseconds after the beginning.
type entry struct {
	scheduled            int64
	called, began, ended atomic.Int64
}

type loop struct {
	plan        *Plan
	begin       int64
	outstanding atomic.Int64
	isClosed    atomic.Bool
	errors      sync.Mutex
}

// openLoop ends when all were served, or when it is time to give up.
func openLoop(plan *Plan, workers []*worker, line []byte) [][4]int64 {
	var start Start
	if err := json.Unmarshal(line, &start); err != nil {
		panic(err)
	}
	open := loop{plan: plan, begin: start.Begin}
	entries := make([][]*entry, len(workers))
	var group sync.WaitGroup
	for n, w := range workers {
		for _, scheduled := range start.Arrivals[n] {
			entries[n] = append(entries[n], &entry{scheduled: scheduled})
		}
		group.Add(1)
		go func() {
			defer group.Done()
			open.generate(w, entries[n])
		}()
	}
	group.Wait()
	givesUp := open.begin + int64(plan.Seconds*1e9)
	for open.outstanding.Load() > 0 && nanos() < givesUp {
		time.Sleep(5 * time.Millisecond)
	}
	open.isClosed.Store(true)
	// What fails from here on is not counted.
	open.errors.Lock()
	arrivals := [][4]int64{}
	for n, w := range workers {
		for _, e := range entries[n] {
			ended := e.ended.Load()
			if ended > 0 {
				w.tally.Holds++
			}
			arrivals = append(arrivals, [4]int64{e.scheduled, e.called.Load(), e.began.Load(), ended})
		}
	}
	return arrivals
}

// Each arrival is a goroutine of its own, which waits for none of the others.
func (open *loop) generate(w *worker, entries []*entry) {
	for _, e := range entries {
		time.Sleep(time.Duration(open.begin + e.scheduled - nanos()))
		if open.outstanding.Add(1) > open.plan.Outstanding {
			open.outstanding.Add(-1)
			continue
		}
		e.called.Store(nanos() - open.begin)
		go func() {
			open.serve(w, e)
			open.outstanding.Add(-1)
		}()
	}
}

func (open *loop) serve(w *worker, e *entry) {
	for e.began.Load() == 0 && !open.isClosed.Load() {
		err := w.hold(w.key, func() { open.visit(w, e) })
		if err != nil {
			open.errors.Lock()
			w.tally.Errors++
			if w.tally.FirstError == nil {
				text := err.Error()
				w.tally.FirstError = &text
			}
			open.errors.Unlock()
		}
	}
}

func (open *loop) visit(w *worker, e *entry) {
	if open.isClosed.Load() {
		return
	}
	e.began.Store(nanos() - open.begin)
	counter, _, _ := w.cell.read()
	if w.sleep > 0 {
		time.Sleep(w.sleep)
	}
	if open.isClosed.Load() {
		return
	}
	w.cell.write(counter+1, int64(w.number)+1, nanos())
	e.ended.Store(nanos() - open.begin)
}
