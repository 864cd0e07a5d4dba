package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
)

// maxPrices bounds a prices file, far above any real one.
const maxPrices = MiB

// Prices says where prices come from that are not written beside a model.
type Prices struct {
	File string `yaml:"file" doc:"A file of prices, as breakwater prices import writes it; relative to this file. It is read again whenever this file is."`

	list PriceList
}

// PriceList is what a prices file says, by provider and model. Providers and
// models that are not declared may be in it: several gateways may share a file.
type PriceList struct {
	Providers map[string]map[string]ListedPrice `yaml:"providers" check:"required" doc:"Prices by the names of providers and of their models."`
}

// ListedPrice is a price with where it comes from.
type ListedPrice struct {
	Price
	Source string `yaml:"source" doc:"Where the price was found."`
	AsOf   string `yaml:"as_of" doc:"The day on which it was valid, as 2026-07-02."`
}

// PriceList returns what the prices file said when the configuration was loaded.
// It is empty where there is no such file, or where the configuration did not
// come from Load.
func (c *Config) PriceList() PriceList { return c.Prices.list }

// Find returns the price of a provider's model.
func (l PriceList) Find(provider, model string) (ListedPrice, bool) {
	price, ok := l.Providers[provider][model]
	return price, ok
}

// ParsePrices reads and checks a prices file; name stands for it in faults. An
// error is always Faults.
func ParsePrices(name string, data []byte) (PriceList, error) {
	var list PriceList
	r := newReport(name)
	decodeDocument(data, func(string) (string, bool) { return "", false }, r, &list)
	walkRules(r, "", reflect.ValueOf(&list).Elem(), "")
	list.check(r)
	if err := r.err(); err != nil {
		return PriceList{}, err
	}
	return list, nil
}

var day = regexp.MustCompile(`^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$`)

func (l PriceList) check(r *report) {
	if l.Providers == nil && r.sound("providers") {
		r.fault("providers", "is missing", "list the prices under it, such as `providers: {openai: {gpt-4.1-mini: {input: 0.40, output: 1.60}}}`")
	}
	for _, provider := range sortedKeys(l.Providers) {
		for _, model := range sortedKeys(l.Providers[provider]) {
			l.Providers[provider][model].check(r, path("providers").key(provider).key(model))
		}
	}
}

func (p ListedPrice) check(r *report, at path) {
	if !r.sound(at) {
		return
	}
	p.Price.check(r, at)
	if r.faultless(at) && !p.IsWhole() {
		r.fault(at, "is not a whole price", "write input and output, or a price per image, second, character or request")
	}
	if p.AsOf != "" && !day.MatchString(p.AsOf) && r.sound(at.key("as_of")) {
		r.fault(at.key("as_of"), "is not a day", "write it as 2026-07-02")
	}
}

// read takes in the prices file of a configuration that stands in file.
func (p *Prices) read(r *report, file string) error {
	if p.File == "" {
		return nil
	}
	name := p.File
	if !filepath.IsAbs(name) {
		name = filepath.Join(filepath.Dir(file), name)
	}
	data, err := readRegular(name, maxPrices)
	if err != nil {
		r.fault(path("prices").key("file"), "cannot be read: "+reasonOf(err), "check the path, which is relative to this file")
		return r.err()
	}
	p.list, err = ParsePrices(name, data)
	return err
}

// reasonOf says why a file was not read, without naming it again.
func reasonOf(err error) string {
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		if errors.Is(err, os.ErrNotExist) {
			return "it does not exist"
		}
		return failed.Err.Error()
	}
	return strings.TrimSpace(err.Error())
}
