package app

import (
	"github.com/breakwater-llm/breakwater/internal/budget"
	"github.com/breakwater-llm/breakwater/internal/config"
	"github.com/breakwater-llm/breakwater/internal/pricelist"
)

// prices are those of all declared targets that have one.
func prices(cfg *config.Config) *budget.Prices { return pricelist.Prices(pricelist.Choose(cfg)) }
