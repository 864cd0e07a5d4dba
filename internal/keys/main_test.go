package keys_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(postgrestest.Main(m)) }
