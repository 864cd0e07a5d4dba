package replicatest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/cache"
)

// server is the replica's side.
type server struct {
	registry *breaker.Registry
	permits  map[string]*breaker.Permit
	load     *load // nil while there is none

	mu   sync.Mutex
	told []Told
}

// serve answers questions until there are no more.
func serve(text string) error {
	var cfg Config
	if err := json.Unmarshal([]byte(text), &cfg); err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	store, err := cache.Open(cfg.URL, cache.Config{Timeout: cfg.StoreTimeout})
	if err != nil {
		return err
	}
	s := &server{permits: map[string]*breaker.Permit{}}
	s.registry = breaker.New(breaker.Config{
		Settings: func(string) breaker.Settings { return cfg.Settings },
		Store:    store, StoreTimeout: cfg.StoreTimeout, OnEvent: s.tell,
	})
	s.registry.Start()
	err = s.answerAll(os.Stdin, os.Stdout)
	if s.load != nil {
		s.load.rest()
	}
	return errors.Join(err, s.stop(), store.Close())
}

func (s *server) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit/2)
	defer cancel()
	return s.registry.Stop(ctx)
}

func (s *server) answerAll(in io.Reader, out io.Writer) error {
	questions, answers := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var q question
		if err := questions.Decode(&q); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		a, err := s.answer(q)
		if err != nil {
			a.Error = err.Error()
		}
		if err := answers.Encode(a); err != nil {
			return err
		}
	}
}

func (s *server) answer(q question) (a reply, err error) {
	switch q.Op {
	case opAcquire:
		a.Grant, err = s.acquire(q)
	case opDone:
		a.At = time.Now()
		a.Settled = s.permits[q.Permit].Done(q.Outcome).String()
	case opAwait:
		a.At = s.await(q.Key, q.State, q.Limit)
	case opCommand:
		_, err = s.registry.Command(context.Background(), q.Key, q.Command)
	case opCircuit:
		a.Circuit, _ = s.registry.Circuit(q.Key)
	case opShared:
		a.Shared, _ = s.registry.Shared()
	case opEvents:
		a.Events = s.events()
	case opFinish:
		err = s.stop()
		a.Events = s.events()
	case opLoad:
		s.load, err = q.Load.begin(s.registry)
	case opRest:
		a.Tally = s.load.rest()
		s.load = nil
	default:
		err = errors.New("nobody knows this question")
	}
	return a, err
}

func (s *server) acquire(q question) (Grant, error) {
	p := &breaker.Permit{}
	err := s.registry.Acquire(q.Key, p)
	g := Grant{At: time.Now(), Probe: p.Probe(), Generation: p.Generation()}
	if refusal, ok := errors.AsType[*breaker.Refusal](err); ok {
		g.Refusal = refusal
		return g, nil
	}
	s.permits[q.Permit] = p
	return g, err
}

// await looks so often that what it returns is right to a fraction of a
// millisecond.
func (s *server) await(key string, state breaker.State, limit time.Duration) time.Time {
	tick := time.NewTicker(200 * time.Microsecond)
	defer tick.Stop()
	for end := time.Now().Add(limit); time.Now().Before(end); <-tick.C {
		if c, ok := s.registry.Circuit(key); ok && c.State == state {
			return time.Now()
		}
	}
	return time.Time{}
}

func (s *server) tell(e breaker.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, Told{e, time.Now()})
}

func (s *server) events() []Told {
	s.mu.Lock()
	defer s.mu.Unlock()
	told := s.told
	s.told = nil
	return told
}
