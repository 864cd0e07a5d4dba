package admin

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

var screenshots = flag.String("screenshots", "", "the directory to write pictures of the page to")

// browserPatience bounds a whole test in the browser: it may start slowly on a
// busy machine.
const browserPatience = 6 * time.Minute

// tab is a page in a real browser.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu     sync.Mutex
	faults []string
}

// browse opens a browser that ends with the test. The test fails when there is
// none: a page that nobody has opened is not tested.
func browse(t *testing.T) *tab {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("the browser is missing, `make deps` installs it: %v", err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.UserDataDir(t.TempDir()), chromedp.WSURLReadTimeout(browserPatience/2),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
	)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), browserPatience)
	ctx, closeBrowser := chromedp.NewExecAllocator(ctx, options...)
	ctx, closeTab := chromedp.NewContext(ctx)
	b := &tab{t: t, ctx: ctx}
	watched := b.watch()
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Errorf("close the browser: %v", err)
		}
		closeTab()
		closeBrowser()
		cancel()
		<-watched
	})
	return b
}

// watch collects what the page complains about: errors of scripts, files that
// are missing, breaches of the content security policy. It ends with the
// browser.
func (b *tab) watch() (ended <-chan struct{}) {
	messages := chromedp.Console(b.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for message, err := range messages {
			if err != nil {
				return
			}
			b.mu.Lock()
			b.faults = append(b.faults, message.String())
			b.mu.Unlock()
		}
	}()
	return done
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatalf("%v; the console says: %v", err, b.complaints())
	}
}

// follow takes steps that lead to another page, and waits until it is there.
func (b *tab) follow(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if _, err := chromedp.RunResponse(b.ctx, steps...); err != nil {
		b.t.Fatalf("%v; the console says: %v", err, b.complaints())
	}
}

// ask evaluates an expression in the page.
func ask[T any](b *tab, expression string) T {
	b.t.Helper()
	answer, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return answer
}

// until waits for an expression to become true. Where the page goes away under
// it, it goes on in the one that comes.
func (b *tab) until(expression string) {
	b.t.Helper()
	_, err := b.poll(expression)
	for begun := time.Now(); replaced(err) && time.Since(begun) < untilPatience; {
		_, err = b.poll(expression)
	}
	if err != nil {
		b.t.Fatalf("waiting for %s: %v; the console says: %v", expression, err, b.complaints())
	}
}

// untilPatience bounds what the page is waited for.
const untilPatience = 2 * time.Minute

func (b *tab) poll(expression string) (bool, error) {
	return chromedp.Run(b.ctx, chromedp.Poll[bool](expression, chromedp.WithPollingInterval(20*time.Millisecond), chromedp.WithPollingTimeout(untilPatience)))
}

// replaced reports whether an expression was lost with the page it was for.
func replaced(err error) bool { return err != nil && strings.Contains(err.Error(), "(-32000)") }

func (b *tab) complaints() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.faults...)
}

func (b *tab) mustBeQuiet() {
	b.t.Helper()
	if said := b.complaints(); len(said) > 0 {
		b.t.Errorf("the console says: %v", said)
	}
}

// tell sends a command of the browser's protocol.
func tell[P any](b *tab, c cdp.Command[P, cdp.Empty], params P) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, c, params); err != nil {
		b.t.Fatal(err)
	}
}

// prefer sets the colour scheme that the browser asks for.
func (b *tab) prefer(scheme string) {
	b.t.Helper()
	tell(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
}

// picture takes a picture of the whole page, and keeps it where the flag says.
func (b *tab) picture(name string) {
	b.t.Helper()
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Fatal(err)
	}
	if *screenshots == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(*screenshots, name), png, 0o644); err != nil {
		b.t.Fatal(err)
	}
}
