// Workers on the lock libraries of Go. The protocol with the harness is described in
// bench/src/plan.rs.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"
)

// Plan is what the harness asks for.
type Plan struct {
	Subject         string  `json:"subject"`
	URL             string  `json:"url"`
	Key             string  `json:"key"`
	IsDistinct      bool    `json:"is_distinct"`
	Tasks           int     `json:"tasks"`
	FirstWorker     int     `json:"first_worker"`
	TasksPerProcess int     `json:"tasks_per_process"`
	WarmUpS         float64 `json:"warm_up_s"`
	Seconds         float64 `json:"seconds"`
	BodyMs          float64 `json:"body_ms"`
	IsOpen          bool    `json:"is_open"`
	ClientEach      bool    `json:"client_each"`
	Outstanding     int64   `json:"outstanding"`
	Cell            *string `json:"cell"`
}

// Tally is what one worker did.
type Tally struct {
	Holds      uint64  `json:"holds"`
	HandOvers  uint64  `json:"hand_overs"`
	Late       uint64  `json:"late"`
	Errors     uint64  `json:"errors"`
	FirstError *string `json:"first_error"`
}

// Answer is what the harness gets.
type Answer struct {
	Workers []*Tally   `json:"workers"`
	Wait    *Histogram `json:"wait"`
	Cycle   *Histogram `json:"cycle"`
	Passed  *Histogram `json:"passed"`
	// Of an open loop.
	Arrivals [][4]int64 `json:"arrivals"`
}

// A Hold acquires the lock of a key, calls the body, releases. Each worker has one of its own.
type Hold func(key string, body func()) error

// Subjects connect once and give each worker its Hold.
var subjects = map[string]func(url string) func() Hold{
	"redsync":     connectRedsync,
	"rueidislock": connectRueidislock,
}

func main() {
	var plan Plan
	if err := json.Unmarshal([]byte(os.Args[1]), &plan); err != nil {
		panic(err)
	}
	cell := openCell(plan.Cell)
	connect := func() func() Hold { return subjects[plan.Subject](plan.URL) }
	newHold := connect()
	workers := make([]*worker, plan.Tasks)
	for n := range workers {
		if plan.ClientEach && n > 0 {
			newHold = connect()
		}
		workers[n] = newWorker(&plan, n, newHold(), cell)
	}
	warm := nanos() + int64(plan.WarmUpS*1e9)
	all(workers, func(w *worker) { w.warmUp(warm) })
	fmt.Println("ready")
	line, err := bufio.NewReader(os.Stdin).ReadBytes('\n')
	if err != nil {
		panic(err)
	}
	answer := Answer{
		Wait: newHistogram(), Cycle: newHistogram(), Passed: newHistogram(), Arrivals: [][4]int64{},
	}
	if plan.IsOpen {
		answer.Arrivals = openLoop(&plan, workers, line)
	} else {
		until := nanos() + int64(plan.Seconds*1e9)
		all(workers, func(w *worker) { w.work(until) })
	}
	for _, w := range workers {
		answer.Workers = append(answer.Workers, &w.tally)
		answer.Wait.merge(w.wait)
		answer.Cycle.merge(w.cycle)
		answer.Passed.merge(w.passed)
	}
	text, err := json.Marshal(answer)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(text))
}

func all(workers []*worker, work func(*worker)) {
	var group sync.WaitGroup
	for _, w := range workers {
		group.Add(1)
		go func() {
			defer group.Done()
			work(w)
		}()
	}
	group.Wait()
}

type worker struct {
	number          int
	tasksPerProcess int
	key             string
	hold            Hold
	cell            *cell
	sleep           time.Duration
	tally           Tally
	wait            *Histogram
	cycle           *Histogram
	passed          *Histogram
}

func newWorker(plan *Plan, n int, hold Hold, cell *cell) *worker {
	w := &worker{
		number: plan.FirstWorker + n, tasksPerProcess: plan.TasksPerProcess, key: plan.Key,
		hold: hold, cell: cell, sleep: time.Duration(plan.BodyMs * 1e6),
		wait: newHistogram(), cycle: newHistogram(), passed: newHistogram(),
	}
	if plan.IsDistinct {
		w.key = fmt.Sprintf("%s-%d", plan.Key, w.number)
	}
	return w
}

func (w *worker) warmUp(until int64) {
	key := fmt.Sprintf("warm-up-%d", w.number)
	for {
		if err := w.hold(key, func() {}); err != nil {
			fmt.Fprintln(os.Stderr, "warm-up:", err)
		}
		if nanos() >= until {
			return
		}
	}
}

func (w *worker) work(until int64) {
	called := nanos()
	for nanos() < until {
		var began, lastWorker, endedAt int64
		err := w.hold(w.key, func() {
			began = nanos()
			if w.cell == nil {
				return
			}
			counter, last, ended := w.cell.read()
			lastWorker, endedAt = last, ended
			if w.sleep > 0 {
				time.Sleep(w.sleep)
			}
			w.cell.write(counter+1, int64(w.number)+1, nanos())
		})
		if err != nil {
			// It is called again, and its wait goes on.
			w.tally.Errors++
			if w.tally.FirstError == nil {
				text := err.Error()
				w.tally.FirstError = &text
			}
		}
		// A release that failed comes behind a body that ran.
		if began != 0 {
			w.count(called, began, until, lastWorker, endedAt)
			called = nanos()
		}
	}
}

func (w *worker) count(called, began, until, lastWorker, endedAt int64) {
	w.wait.count(began - called)
	if began >= until {
		w.tally.Late++
		return
	}
	w.cycle.count(nanos() - called)
	w.tally.Holds++
	last := int(lastWorker) - 1
	if last < 0 || last == w.number {
		return
	}
	w.tally.HandOvers++
	if w.tasksPerProcess == 0 || last/w.tasksPerProcess != w.number/w.tasksPerProcess {
		w.passed.count(began - endedAt)
	}
}
