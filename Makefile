# Run `make` to list the targets. Their implementation is in scripts/.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help run test test-unit test-integration test-one build debug lint format fuzz bench bench-pairs bench-layers bench-fields bench-journeys profile clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## install missing packages, build, serve on 127.0.0.1:8080 (HTTP_PORT) and print a curl command to try
	@scripts/run

test: ## run all tests: unit, then integration without Redis, with Redis and on PostgreSQL
	@scripts/test

test-unit: ## run the unit tests
	@scripts/test unit

test-integration: ## test the built server over HTTP: without Redis, with Redis and on PostgreSQL
	@scripts/test integration

test-one: ## run one test quickly: TEST=JourneyModelTests.FoldTests, TEST=events.bats or TEST=signin_codes.py (REDIS=1)
	@REDIS='$(REDIS)' scripts/test-one '$(TEST)'

build: ## build the release binary: .build/release/dwell
	@scripts/bootstrap
	@scripts/build release

debug: ## build the debug binary: .build/debug/dwell
	@scripts/bootstrap
	@scripts/build debug

lint: ## report formatting errors
	swift format lint --strict --recursive Package.swift Sources Tests Fuzz Benchmarks

format: ## fix formatting errors
	swift format --in-place --recursive Package.swift Sources Tests Fuzz Benchmarks

fuzz: ## run each fuzz target for SECONDS (60)
	@SECONDS=$(or $(SECONDS),60) scripts/fuzz

bench: ## compare Dwell with its peers and the machine: LOADS=headline|all|config,events,... SECONDS=5 ROUNDS=3; writes docs/benchmarks.md
	@scripts/bench --loads '$(or $(LOADS),headline)' --seconds $(or $(SECONDS),5) --rounds $(or $(ROUNDS),3) $(BENCH)

bench-pairs: ## compare two binaries that run at the same time: NEW=.build/release/dwell OLD=path PAIRS='--load config --rounds 9'
	@python3 Benchmarks/pairs.py $(or $(NEW),.build/release/dwell) $(OLD) $(PAIRS)

bench-layers: ## measure time, allocations and system calls of each layer; LAYERS=parse,fold,...
	@scripts/bench-layers $(LAYERS)

profile: ## write a flame graph of the server under LOAD=events|config|batch|mix for SECONDS (5): .build/profile/LOAD.svg
	@scripts/profile $(or $(LOAD),events) $(or $(SECONDS),5)

bench-fields: ## compare the cost of our header fields with swift-http-types
	DWELL_BENCHMARKS=1 swift run -c release HeaderFields

bench-journeys: ## compare the cost of an event in journeys of 10,000 and of 10 events
	DWELL_BENCHMARKS=1 swift run -c release JourneyLength

clean: ## remove build products; keep var/, the database
	rm -rf .build
