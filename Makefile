# Breakwater: every command a contributor or CI needs. `make help` lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

CONFIG  ?= examples/quickstart.yaml
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT  := $(shell git rev-parse --short HEAD 2>/dev/null || echo unknown)
LDFLAGS := -X main.version=$(VERSION) -X main.commit=$(COMMIT)

.PHONY: help deps deps-run build run test race smoke lint tools generate generate-check screenshots bench bench-features bench-breaker bench-shared bench-micro soak soak-breaker drill fuzz

help: ## List these targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

deps: ## Install, or name in one apt line, what building and testing need
	@scripts/deps.sh test

deps-run:
	@scripts/deps.sh run

build: ## Build bin/breakwater
	go build -buildvcs=false -ldflags '$(LDFLAGS)' -o bin/breakwater ./cmd/server

run: deps-run build ## Start the gateway on its own Postgres with simulated providers, and print a key (PORT, ADMIN_PORT, CONFIG)
	@exec bin/breakwater serve --try --config $(CONFIG)

test: deps ## Run every test, with the race detector
	go test -race -timeout 15m ./...
	go -C internal/breaker/bench test -race ./...

race: test ## The same as test: the race detector is always on

smoke: deps ## In a fresh clone, as root and as an ordinary user: run, call, kill -9, run again
	@scripts/smoke.sh

lint: bin/staticcheck ## Check formatting, vet and staticcheck
	@test -z "$$(gofmt -l bench cmd db deploy internal tools web | tee /dev/stderr)" || { echo 'run gofmt -w on the files above'; exit 1; }
	go vet ./...
	bin/staticcheck ./...
	go -C tools vet ./protogen
	cd internal/breaker/bench && go vet ./... && $(CURDIR)/bin/staticcheck ./...

bin/sqlc bin/staticcheck: tools/go.mod tools/go.sum
	CGO_ENABLED=0 go build -modfile=tools/go.mod -o bin/ $(if $(findstring sqlc,$@),github.com/sqlc-dev/sqlc/cmd/sqlc,honnef.co/go/tools/cmd/staticcheck)

bin/templ: tools/go.mod tools/go.sum
	CGO_ENABLED=0 go build -modfile=tools/go.mod -o bin/ github.com/a-h/templ/cmd/templ

bin/protogen: tools/go.mod tools/go.sum tools/protogen/main.go
	CGO_ENABLED=0 go -C tools build -o ../bin/ ./protogen google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc

tools: bin/sqlc bin/staticcheck bin/templ bin/protogen ## Build the development tools into bin/

generate: bin/sqlc bin/templ bin/protogen ## Regenerate the database code from db/, the pages from web/templates and the code of context.proto
	bin/sqlc generate
	bin/protogen internal contextasm/contextpb/context.proto
	bin/templ generate -path web/templates
	@scripts/generated.sh record

generate-check: ## Fail when generated code does not belong to its sources
	@scripts/generated.sh check

screenshots: deps ## Take the pictures of the pages for docs/images
	go test -count=1 ./internal/admin -run TestBrowserDraws -screenshots $(CURDIR)/docs/images

bench: deps-run build ## Measure the gateway beside a plain reverse proxy (BENCH='--rounds 20' for longer, --help for more)
	go build -o bin/bench ./bench
	@bin/bench run $(BENCH)

bench-features: deps build ## Measure what keys, limits, replays and cached answers cost beside the plain gateway (BENCH='--rounds 10')
	go build -o bin/bench ./bench
	@bin/bench features $(BENCH)

bench-breaker: ## Measure the circuit breaker beside gobreaker and failsafe-go, in about two minutes
	go -C internal/breaker/bench build -o $(CURDIR)/bin/bench-breaker .
	@bin/bench-breaker

soak: deps-run build ## Load the gateway as production does for SOAK (default 10m) and hold it to its promises
	go build -o bin/soak ./bench/soak
	@bin/soak --for $(or $(SOAK),10m)

soak-breaker: ## Load the circuit breaker alone in every way for SOAK (default 5m) and hold it to its promises (STORE=cached or strict: several processes on one server)
	go build -o bin/soak-breaker ./bench/soak/breaker
	@bin/soak-breaker --for $(or $(SOAK),5m) $(if $(STORE),--store $(STORE))

drill: deps-run build ## Hurt a provider for two minutes and print what callers saw (DRILL=--breaker=off, DRILL_CACHE=redis)
	go build -o bin/drill ./bench/drill
	@bin/drill $(DRILL)

bench-shared: ## Measure circuits that eight processes share on a real server, in about a minute
	go build -o bin/bench-shared ./bench/shared
	@bin/bench-shared

bench-micro: ## Run the benchmarks beside the code
	go test -run '^$$' -bench . -benchmem ./internal/...

fuzz: ## Run each fuzz target for FUZZTIME (default 10s)
	@scripts/fuzz.sh
