package pricelist

import (
	_ "embed"
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"

	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/config"
)

//go:embed table.csv
var tableCSV string

// The columns of the built-in table.
const (
	colVendor = iota
	colModel
	colAbove
	colInput
	colCachedInput
	colCacheWrite
	colAudioInput
	colOutput
	colAudioOutput
	colPerSecond
	colAsOf
	colSource
	columns
)

// Table is a list of prices by vendor and model.
type Table struct {
	models map[vendorModel]config.ListedPrice
}

type vendorModel struct{ vendor, model string }

// BuiltIn returns the table that comes with the program. Its prices were valid
// on the day that stands beside each, and the vendors are free to change them.
func BuiltIn() Table {
	table, err := parseTable(tableCSV)
	if err != nil {
		panic("pricelist: " + err.Error()) // a test reads the same text
	}
	return table
}

func (t Table) find(vendor, model string) (config.ListedPrice, bool) {
	if vendor == "" {
		return config.ListedPrice{}, false
	}
	model = strings.TrimPrefix(model, vendorNamed(vendor).modelsAt)
	price, found := t.models[vendorModel{vendor, model}]
	return price, found
}

// parseTable reads the table. A row with a bound is a tier of the model in the
// row before it.
func parseTable(text string) (Table, error) {
	reader := csv.NewReader(strings.NewReader(text))
	reader.FieldsPerRecord = columns
	rows, err := reader.ReadAll()
	if err != nil {
		return Table{}, fmt.Errorf("read the built-in prices: %w", err)
	}
	table := Table{models: make(map[vendorModel]config.ListedPrice, len(rows))}
	for i, row := range rows[1:] {
		if err := table.add(row); err != nil {
			return Table{}, fmt.Errorf("built-in prices, line %d: %w", i+2, err)
		}
	}
	return table, nil
}

func (t Table) add(row []string) error {
	key := vendorModel{row[colVendor], row[colModel]}
	price, known := t.models[key]
	tokens, err := tokensOf(row)
	if err != nil {
		return err
	}
	if known != (row[colAbove] != "") {
		return fmt.Errorf("%s %s is there twice, or its tier comes first", key.vendor, key.model)
	}
	if known {
		above, err := strconv.Atoi(row[colAbove])
		if err != nil {
			return fmt.Errorf("bound of a tier: %w", err)
		}
		price.Tiers = append(price.Tiers, config.PriceTier{Above: above, TokenPrice: tokens})
		t.models[key] = price
		return nil
	}
	price.TokenPrice, price.AsOf, price.Source = tokens, row[colAsOf], row[colSource]
	if price.PerSecond, err = amount(row[colPerSecond]); err != nil {
		return err
	}
	t.models[key] = price
	return nil
}

func tokensOf(row []string) (tokens config.TokenPrice, err error) {
	for column, into := range map[int]**decimal.Decimal{
		colInput: &tokens.Input, colCachedInput: &tokens.CachedInput, colCacheWrite: &tokens.CacheWrite, colAudioInput: &tokens.AudioInput,
		colOutput: &tokens.Output, colAudioOutput: &tokens.AudioOutput,
	} {
		if *into, err = amount(row[column]); err != nil {
			return tokens, err
		}
	}
	return tokens, nil
}

// amount reads a sum of money; an empty cell is none.
func amount(text string) (*decimal.Decimal, error) {
	if text == "" {
		return nil, nil
	}
	sum, err := decimal.NewFromString(text)
	if err != nil {
		return nil, fmt.Errorf("amount: %w", err)
	}
	return &sum, nil
}

func orZero(sum *decimal.Decimal) decimal.Decimal {
	if sum == nil {
		return decimal.Zero
	}
	return *sum
}
