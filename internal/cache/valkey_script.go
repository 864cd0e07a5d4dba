package cache

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"
)

// errAnswer marks a script's answer that is not an array of strings.
var errAnswer = errors.New("it did not return an array of strings")

// compareAndSwap answers {"1"} when it wrote.
var compareAndSwap = &Script{Name: "compare_and_swap", Lua: `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return {}
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return {'1'}
`}

// Run is described by Cache.
func (v *Valkey) Run(ctx context.Context, s *Script, keys []string, args ...string) ([]string, error) {
	values, err := v.run(ctx, s, keys, args)
	if err != nil {
		return nil, s.failed(err)
	}
	return values, nil
}

func (v *Valkey) run(ctx context.Context, s *Script, keys, args []string) (values []string, err error) {
	if err := sameSlot(keys); err != nil {
		return nil, err
	}
	err = v.call(ctx, func(ctx context.Context, l *line) (err error) {
		build := l.shortest(s, nil)
		r := l.client.Do(ctx, build(l.client, s, keys, args))
		if isLost(r) {
			r = l.client.Do(ctx, byText(l.client, s, keys, args))
		}
		l.learn(s, r)
		values, err = answer(r)
		return err
	})
	return values, err
}

// RunAll is described by Cache.
func (v *Valkey) RunAll(ctx context.Context, runs []Run) []Result {
	results := make([]Result, len(runs))
	sent := make([]int, 0, len(runs)) // the runs that may be sent
	for i, run := range runs {
		if err := sameSlot(run.Keys); err != nil {
			results[i].Err = run.Script.failed(err)
			continue
		}
		sent = append(sent, i)
	}
	if len(sent) == 0 {
		return results
	}
	err := v.call(ctx, func(ctx context.Context, l *line) error {
		return l.runAll(ctx, runs, sent, results)
	})
	for _, i := range sent {
		if err != nil && results[i].Err == nil && results[i].Values == nil {
			results[i].Err = runs[i].Script.failed(err)
		}
	}
	return results
}

// runAll fills the results of the sent runs. It returns an error when the call
// ended before some of the answers; the results that are still empty share it.
func (l *line) runAll(ctx context.Context, runs []Run, sent []int, results []Result) error {
	ahead := map[*Script]bool{}
	lost, err := l.round(ctx, runs, sent, results, func(s *Script) builder { return l.shortest(s, ahead) })
	if len(lost) == 0 || err != nil {
		return err
	}
	_, err = l.round(ctx, runs, lost, results, func(*Script) builder { return byText })
	return err
}

// round sends the runs together and settles those that were answered. It returns
// those whose script the server has lost, and the context's error when that ended
// before every answer was there: of a cluster's nodes one may be late alone.
func (l *line) round(ctx context.Context, runs []Run, which []int, results []Result, how func(*Script) builder) (lost []int, late error) {
	commands := make(rueidis.Commands, len(which))
	for n, i := range which {
		commands[n] = how(runs[i].Script)(l.client, runs[i].Script, runs[i].Keys, runs[i].Args)
	}
	for n, r := range l.client.DoMulti(ctx, commands...) {
		i := which[n]
		switch err := r.NonRedisError(); {
		case err != nil && ctx.Err() != nil && isContextError(err):
			late = err
		case isLost(r):
			lost = append(lost, i)
		default:
			l.settle(&results[i], runs[i].Script, r)
		}
	}
	return lost, late
}

func (l *line) settle(result *Result, s *Script, r rueidis.RedisResult) {
	l.learn(s, r)
	values, err := answer(r)
	if err != nil {
		result.Err = s.failed(l.translate(err))
		return
	}
	result.Values = values
}

// shortest sends a script's name where the server knows it, from an earlier call
// or from one ahead in the pipeline, and its text the first time: a pipeline
// whose scripts are new keeps its order and takes one round trip. In a cluster
// nobody says which node knows what, so there the name is tried first.
func (l *line) shortest(s *Script, ahead map[*Script]bool) builder {
	if l.cluster || ahead[s] {
		return bySHA
	}
	if _, known := l.known.Load(s); known {
		return bySHA
	}
	if ahead != nil {
		ahead[s] = true
	}
	return byText
}

// learn remembers that the server has run the script.
func (l *line) learn(s *Script, r rueidis.RedisResult) {
	if _, known := l.known.Load(s); !known && r.NonRedisError() == nil {
		l.known.Store(s, true)
	}
}

type builder func(rueidis.Client, *Script, []string, []string) rueidis.Completed

func bySHA(c rueidis.Client, s *Script, keys, args []string) rueidis.Completed {
	return c.B().Evalsha().Sha1(s.sha1()).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
}

// byText brings the script along, for a server that does not know it: it was
// restarted, emptied of scripts, or is another one.
func byText(c rueidis.Client, s *Script, keys, args []string) rueidis.Completed {
	return c.B().Eval().Script(s.Lua).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
}

func isLost(r rueidis.RedisResult) bool {
	said, ok := rueidis.IsRedisErr(r.Error())
	return ok && said.IsNoScript()
}

// answer reads an array of strings.
func answer(r rueidis.RedisResult) ([]string, error) {
	if err := r.Error(); err != nil {
		if rueidis.IsRedisNil(err) {
			return nil, fmt.Errorf("%w but nothing", errAnswer)
		}
		return nil, err
	}
	items, err := r.ToArray()
	if err != nil {
		return nil, errAnswer
	}
	values := make([]string, len(items))
	for i := range items {
		if values[i], err = items[i].ToString(); err != nil {
			return nil, fmt.Errorf("%w: look at number %d", errAnswer, i+1)
		}
	}
	return values, nil
}

func format(n int64) string { return strconv.FormatInt(n, 10) }
