package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
)

// readWithin is how long reading the file and what it refers to may take. A file
// system that is away can hold a read for ever.
const readWithin = 10 * time.Second

var errReadTooLong = errors.New("the file system did not answer in time; check what is mounted there")

// Load reads and checks a file and the prices file that it names, with references
// resolved from the process environment. The error is Faults when the file was
// read and is not valid, or what it names is not.
func Load(path string) (*Config, error) {
	return within(readWithin, path, func() (*Config, error) {
		data, err := readRegular(path, 0)
		if err != nil {
			return nil, fmt.Errorf("read configuration: %w", err)
		}
		c, r := parse(path, data, os.LookupEnv, Default())
		if err := r.err(); err != nil {
			return nil, err
		}
		if err := c.Prices.read(r, path); err != nil {
			return nil, err
		}
		return c, nil
	})
}

// within returns what load does, if it does in time. A load that is held longer
// is left to end by itself: nothing can call it back.
func within(limit time.Duration, path string, load func() (*Config, error)) (*Config, error) {
	type loaded struct {
		cfg *Config
		err error
	}
	ended := make(chan loaded, 1)
	go func() {
		cfg, err := load()
		ended <- loaded{cfg, err}
	}()
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case l := <-ended:
		return l.cfg, l.err
	case <-late.C:
		return nil, fmt.Errorf("read configuration: %s was not read within %s: %w", path, limit, errReadTooLong)
	}
}

// readRegular reads a regular file of up to limit bytes; 0 is no limit. It asks
// what the file is without waiting for anybody at its other end: a pipe or a
// device could hold a plain open for ever.
func readRegular(file string, limit Size) ([]byte, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", file)
	}
	if limit == 0 {
		return io.ReadAll(f)
	}
	data, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err == nil && len(data) > int(limit) {
		err = fmt.Errorf("%s is over %s", file, limit)
	}
	return data, err
}
