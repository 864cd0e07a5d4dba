package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/breakwater-llm/breakwater/internal/config"
	"github.com/breakwater-llm/breakwater/internal/pricelist"
)

// maxList bounds a published list of prices, far above any real one.
const maxList = 64 << 20

type pricesCmd struct {
	List   pricesListCmd   `cmd:"" help:"Print what each declared model costs, and where its price comes from."`
	Import pricesImportCmd `cmd:"" help:"Take prices from a list that others publish: show what would change, or write a prices file."`
}

type pricesListCmd struct{ configFlag }

// Run prints a line per declared model.
func (c pricesListCmd) Run(std streams) error {
	cfg, err := c.load()
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(std.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "MODEL\tFROM\tPRICE (USD PER 1M TOKENS)\tAS OF\tSOURCE")
	for _, choice := range pricelist.Choose(cfg) {
		fmt.Fprintf(table, "%s/%s\t%s\t%s\t%s\t%s\n", choice.Target.Provider, choice.Target.Model,
			cmp.Or(string(choice.Origin), "-"), described(choice), cmp.Or(choice.AsOf, "-"), cmp.Or(choice.Source, "-"))
	}
	return table.Flush()
}

func described(choice pricelist.Choice) string {
	if choice.Half {
		return "unpriced: only a part of a price is written"
	}
	return pricelist.Describe(choice.Price)
}

type pricesImportCmd struct {
	configFlag
	File   string            `arg:"" help:"The list: model_prices_and_context_window.json of LiteLLM, or api.json of models.dev."`
	Vendor map[string]string `placeholder:"PROVIDER=VENDOR" help:"Whose list a provider's models are in, where its host does not say so; may be repeated."`
	AsOf   string            `placeholder:"DAY" help:"The day of the list, as 2026-07-02; without it, that of the file."`
	Write  string            `placeholder:"FILE" help:"Write what is found into this prices file; what it says about other models stays."`
}

// Run prints what the list would change, model by model, and writes only when it
// is told where.
func (c pricesImportCmd) Run(std streams) error {
	cfg, err := c.load()
	if err != nil {
		return err
	}
	for provider := range c.Vendor {
		if _, declared := cfg.Providers[provider]; !declared {
			return usageError{fmt.Errorf("--vendor: %s is no provider of %s", provider, c.Path)}
		}
	}
	published, modified, err := readList(c.File)
	if err != nil {
		return err
	}
	asOf, err := dayOf(c.AsOf, modified)
	if err != nil {
		return err
	}
	for _, vendor := range c.Vendor {
		if !published.Has(vendor) {
			return usageError{fmt.Errorf("--vendor: %s has no vendor %q; it has %s", c.File, vendor, someOf(published.Vendors()))}
		}
	}
	source := fmt.Sprintf("%s, %s", published.Format, filepath.Base(c.File))
	changes := pricelist.Preview(cfg, published, c.Vendor, source, asOf)
	if err := printChanges(std.Out, changes); err != nil {
		return err
	}
	if c.Write == "" {
		_, err := fmt.Fprintln(std.Out, "\nnothing is written; --write FILE makes a prices file of it")
		return err
	}
	return c.write(std.Out, cfg, changes)
}

// someOf lists the first few of many names, and how many more there are.
func someOf(names []string) string {
	const shown = 8
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}

func readList(file string) (*pricelist.Published, time.Time, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, time.Time{}, usageError{fmt.Errorf("%s does not exist: name model_prices_and_context_window.json of LiteLLM or api.json of models.dev, fetched before", file)}
	}
	if err != nil {
		return nil, time.Time{}, usageError{fmt.Errorf("read the list of prices: %w; check the path and who may read it", err)}
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, time.Time{}, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxList+1))
	switch {
	case err != nil:
		return nil, time.Time{}, usageError{fmt.Errorf("read the list of prices: %w; name a file that this user may read", err)}
	case len(data) > maxList:
		return nil, time.Time{}, fmt.Errorf("%s is larger than any list of prices", file)
	}
	published, err := pricelist.Read(bytes.TrimSpace(data))
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("%s: %w", file, err)
	}
	return published, info.ModTime(), nil
}

func dayOf(written string, otherwise time.Time) (string, error) {
	if written == "" {
		return otherwise.UTC().Format(time.DateOnly), nil
	}
	if _, err := time.Parse(time.DateOnly, written); err != nil {
		return "", usageError{fmt.Errorf("--as-of: %s is not a day; write it as 2026-07-02", written)}
	}
	return written, nil
}

// printChanges prints two lines per model, the price now and then; one where they
// are the same; and what of the list has no place here.
func printChanges(w io.Writer, changes []pricelist.Change) error {
	var b strings.Builder
	found := 0
	for _, c := range changes {
		fmt.Fprintf(&b, "%s/%s", c.Now.Target.Provider, c.Now.Target.Model)
		switch {
		case !c.Found():
			fmt.Fprintf(&b, ": %s\n", whyNot(c))
			continue
		case pricelist.Same(c.Now.Price, c.Next.Price):
			fmt.Fprintf(&b, ": as it is (%s)\n", pricelist.Describe(c.Next.Price))
		default:
			fmt.Fprintf(&b, "\n  now   %s%s\n  then  %s\n", described(c.Now), origin(c.Now), pricelist.Describe(c.Next.Price))
		}
		found++
		if c.Now.Origin == pricelist.FromConfiguration || c.Now.Half {
			b.WriteString("  the price beside the model goes on to govern; remove it there to use this one\n")
		}
		if len(c.Quote.NotApplied) > 0 {
			fmt.Fprintf(&b, "  not applied: %s\n", strings.Join(c.Quote.NotApplied, ", "))
		}
	}
	fmt.Fprintf(&b, "\n%d of %d models found\n", found, len(changes))
	_, err := io.WriteString(w, b.String())
	return err
}

func whyNot(c pricelist.Change) string {
	switch {
	case errors.Is(c.Err, pricelist.ErrNoVendor):
		return fmt.Sprintf("not looked up, its host is no vendor's own; --vendor %s=VENDOR names the list it is in", c.Now.Target.Provider)
	case errors.Is(c.Err, pricelist.ErrNotFound):
		return fmt.Sprintf("not found among the models of %s", c.Vendor)
	default:
		return fmt.Sprintf("found and not taken: %s", c.Err)
	}
}

func origin(choice pricelist.Choice) string {
	if choice.Origin == pricelist.FromNowhere {
		return ""
	}
	return fmt.Sprintf(" (%s)", choice.Origin)
}

// write makes the prices file whole before it takes the place of the old one.
func (c pricesImportCmd) write(w io.Writer, cfg *config.Config, changes []pricelist.Change) error {
	var old config.PriceList
	data, err := os.ReadFile(c.Write)
	switch {
	case err == nil:
		if old, err = config.ParsePrices(c.Write, data); err != nil {
			return usageError{err}
		}
	case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR):
		return usageError{fmt.Errorf("--write %s: %w; name a file that this user may read and write", c.Write, err)}
	}
	var text bytes.Buffer
	if err := pricelist.Write(&text, pricelist.Merge(old, changes)); err != nil {
		return err
	}
	if _, err := config.ParsePrices(c.Write, text.Bytes()); err != nil {
		return fmt.Errorf("the prices that were found cannot be written: %w", err)
	}
	if err := replace(c.Write, text.Bytes()); err != nil {
		return err
	}
	fmt.Fprintf(w, "written to %s\n", c.Write)
	if cfg.Prices.File == "" {
		fmt.Fprintf(w, "%s does not name it yet: write `prices: {file: %s}` there\n", c.Path, beside(c.Path, c.Write))
	}
	return nil
}

// beside returns the path of a file as a configuration has to name it: relative
// to the configuration, or absolute where there is no such way.
func beside(config, file string) string {
	file = absolute(file)
	if relative, err := filepath.Rel(filepath.Dir(absolute(config)), file); err == nil {
		return relative
	}
	return file
}

// replace puts a file in the place of another in one step, so that a gateway
// that reads it sees one of the two.
func replace(file string, data []byte) error {
	dir := filepath.Dir(file)
	switch info, err := os.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return usageError{fmt.Errorf("--write %s: the directory %s does not exist; make it, or name another file", file, dir)}
	case err == nil && !info.IsDir():
		return usageError{fmt.Errorf("--write %s: %s is no directory; name another file", file, dir)}
	}
	next, err := os.CreateTemp(dir, ".prices-*")
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("--write %s: this user may not write in %s; name another file", file, dir)
	}
	if err != nil {
		return err
	}
	defer os.Remove(next.Name()) // which is gone when all went well
	if _, err := next.Write(data); err != nil {
		return errors.Join(err, next.Close())
	}
	if err := errors.Join(next.Chmod(0o644), next.Sync(), next.Close()); err != nil {
		return err
	}
	return os.Rename(next.Name(), file)
}
