package budget_test

import (
	"testing"

	"github.com/breakwater-llm/breakwater/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }
