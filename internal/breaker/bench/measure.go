package main

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"
)

// plan says how long to measure.
type plan struct {
	rounds int
	slice  time.Duration
}

// cost is one operation's. CPU is what the kernel accounts to the process, the
// collector's work included; beside it wall time is a matter of who else runs.
type cost struct {
	cpu, wall float64 // ns
	allocs    float64
	ratio     float64 // of cpu to the yardstick's in the same round; 0 without one
}

// result is one contestant's median, by the number of processors.
type result struct {
	contestant
	on map[int]cost
}

// processors are the numbers of them that everything is measured with.
func processors() []int { return []int{1, 2} }

// measure runs every contestant once in each round, another one first each time,
// so that a drift of the machine hits all alike.
func measure(p plan, all []contestant) []result {
	results := make([]result, len(all))
	for i, c := range all {
		results[i] = result{contestant: c, on: map[int]cost{}}
	}
	for _, procs := range processors() {
		before := runtime.GOMAXPROCS(procs)
		for i, costs := range measureOn(p, all, procs) {
			results[i].on[procs] = medianCost(costs)
		}
		runtime.GOMAXPROCS(before)
	}
	return results
}

// measureOn returns the costs of each contestant, one for each round.
func measureOn(p plan, all []contestant, procs int) [][]cost {
	times := make([]int, len(all))
	for i, c := range all {
		times[i] = calibrate(c.loop, procs, p.slice)
	}
	costs := make([][]cost, len(all))
	for round := range p.rounds {
		turn := make([]cost, len(all))
		for i := range all {
			next := (i + round*len(all)/p.rounds) % len(all)
			turn[next] = run(all[next].loop, procs, times[next])
		}
		for i := range all {
			turn[i].ratio = ratio(all, turn, i)
			costs[i] = append(costs[i], turn[i])
		}
		fmt.Fprintf(os.Stderr, "round %d of %d on %d processors\n", round+1, p.rounds, procs)
	}
	return costs
}

// calibrate returns how often a loop goes round in the time, going by what it
// uses of the processors, lest a busy machine make for short loops.
func calibrate(l loop, procs int, slice time.Duration) int {
	for n := 1000; ; n *= 4 {
		before := cpuTime()
		runOn(l, procs, n)
		if took := (cpuTime() - before) / time.Duration(procs); took > slice/10 {
			return max(1000, int(float64(n)*float64(slice)/float64(took)))
		}
	}
}

// run measures n operations, the collector having tidied up before.
func run(l loop, procs, n int) cost {
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, began := cpuTime(), time.Now()
	runOn(l, procs, n)
	wall, used := time.Since(began), cpuTime()-cpu
	runtime.ReadMemStats(&after)
	return cost{
		cpu:    float64(used) / float64(n),
		wall:   float64(wall) / float64(n),
		allocs: float64(after.Mallocs-before.Mallocs) / float64(n),
	}
}

// runOn shares n operations among as many goroutines as there are processors.
func runOn(l loop, procs, n int) {
	var all sync.WaitGroup
	for i := range procs {
		all.Go(func() { l(i*n/procs, n/procs) })
	}
	all.Wait()
}

// cpuTime is what this process has used so far, user and system.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(fmt.Errorf("read the CPU time of this process: %w", err))
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// ratio compares the i-th with the yardstick of the same operation and keys.
func ratio(all []contestant, turn []cost, i int) float64 {
	operation := all[i].operation
	if operation == slow {
		operation = success // the peers have nothing like it
	}
	for j, other := range all {
		if other.operation == operation && other.keys == all[i].keys && other.name == yardstick {
			return turn[i].cpu / turn[j].cpu
		}
	}
	return 0
}

func medianCost(all []cost) cost {
	return cost{
		cpu:    median(all, func(c cost) float64 { return c.cpu }),
		wall:   median(all, func(c cost) float64 { return c.wall }),
		allocs: median(all, func(c cost) float64 { return c.allocs }),
		ratio:  median(all, func(c cost) float64 { return c.ratio }),
	}
}

// median returns the middle value, the mean of both when there are two.
func median(all []cost, of func(cost) float64) float64 {
	values := make([]float64, len(all))
	for i, c := range all {
		values[i] = of(c)
	}
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}
