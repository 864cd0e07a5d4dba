package main

import (
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/breakwater-llm/breakwater/internal/config"
)

// triggers say why the configuration may have changed.
type triggers struct {
	reloads   chan string
	unwatched error // why changes of the file go unseen

	hangups chan os.Signal
	file    *config.Watcher // nil when unwatched
	ended   chan struct{}
	done    sync.WaitGroup
}

// watchConfiguration begins to listen for SIGHUP, which from now on ends the
// process no more, and for changes of the file.
func watchConfiguration(path string) *triggers {
	t := &triggers{reloads: make(chan string), hangups: make(chan os.Signal, 1), ended: make(chan struct{})}
	signal.Notify(t.hangups, syscall.SIGHUP)
	t.file, t.unwatched = config.Watch(path)
	var changes <-chan struct{}
	if t.unwatched == nil {
		changes = t.file.Changes()
	}
	t.done.Go(func() { t.pass(changes) })
	return t
}

// pass hands one trigger on after the other. Those that come while the gateway
// is busy with a reload are one.
func (t *triggers) pass(changes <-chan struct{}) {
	for {
		why := "file"
		select {
		case <-t.ended:
			return
		case <-t.hangups:
			why = "SIGHUP"
		case <-changes:
		}
		select {
		case <-t.ended:
			return
		case t.reloads <- why:
		}
	}
}

func (t *triggers) stop() {
	close(t.ended)
	t.done.Wait()
	signal.Stop(t.hangups)
	if t.file != nil {
		t.file.Stop()
	}
}
