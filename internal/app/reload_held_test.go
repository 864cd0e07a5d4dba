package app

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/breakwater-llm/breakwater/internal/config"
)

// A file system that does not answer must not keep the gateway from going.
func TestAReloadThatIsHeldEndsWithTheGateway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		back := make(chan struct{})
		reloads := make(chan string)
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() {
			served <- new(gateway).serve(ctx, Options{Reloads: reloads, Reload: func() (*config.Config, error) {
				<-back
				return config.Default(), nil
			}})
		}()
		reloads <- "test"
		synctest.Wait()
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serving ended with %v", err)
		}
		close(back)
	})
}
