package breaker

import (
	"sync/atomic"
	"time"
)

// tab counts the successes of a closed circuit without its lock. It is open
// only while a success changes nothing but a count: no streak to end, no rate
// to pass its limit, and the window in one bucket. Whoever takes the lock
// closes the tab first and adds what it holds to the window, so that every
// evaluation sees every success before it, and a success that comes late sees
// that the tab is closed and takes the lock itself.
type tab struct {
	generation uint64
	until      time.Duration // end of the bucket that the successes belong to
	count      atomic.Uint64 // and a mark when it is closed
}

const tabClosed = 1 << 63

// add counts one success; false when the tab was closed before.
func (t *tab) add() bool { return t.count.Add(1)&tabClosed == 0 }

// close returns how many were counted.
func (t *tab) close() uint64 { return t.count.Or(tabClosed) &^ tabClosed }

// onTab counts a success on the open tab, if there is one for the permit's
// generation. It reads the clock into o if it needs to.
func (c *circuit) onTab(w word, o *Outcome) bool {
	t := c.tab.Load()
	if t == nil || t.generation != w.generation() {
		return false
	}
	if t.until != forever {
		if o.At <= 0 {
			o.At = c.registry.now()
		}
		if o.At >= t.until {
			return false
		}
	}
	return t.add()
}

// openTab lets successes pass without the lock where they may. The caller holds
// mu.
func (c *circuit) openTab(in instant) {
	if !c.off && c.machine.unmoved(in) {
		c.tab.Store(&tab{generation: c.machine.generation, until: c.machine.window.steady()})
	}
}

// closeTab adds what the tab holds to the window. The caller holds mu.
func (c *circuit) closeTab() {
	if t := c.tab.Load(); t != nil {
		c.tab.Store(nil)
		n := t.close()
		c.ended += n
		c.machine.window.succeed(n)
		c.machine.unsent.succeed(n)
	}
}
