package app_test

import (
	"testing"

	"github.com/breakwater-llm/breakwater/internal/leaktest"
	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
)

func TestMain(m *testing.M) { leaktest.Main(postgrestest.Main(m)) }
