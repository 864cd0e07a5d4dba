package postgres_test

import (
	"testing"

	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(postgrestest.Main(m)) }
