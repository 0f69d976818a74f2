# What there is to do here. `make` alone lists it. The work is in scripts/, which say what they do.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help run test test-unit test-integration test-one build debug lint format fuzz bench bench-layers bench-fields bench-journeys profile clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## install what is missing, build, serve on 127.0.0.1:8080 (HTTP_PORT) and print a curl line to try
	@scripts/run

test: ## every test: unit, then integration without and with Redis
	@scripts/test

test-unit: ## the unit tests; warnings are errors
	@scripts/test unit

test-integration: ## the built server over HTTP, without and with Redis
	@scripts/test integration

test-one: ## one test, quickly: TEST=JourneyModelTests.FoldTests, TEST=events.bats or TEST=signin_codes.py (REDIS=1)
	@REDIS='$(REDIS)' scripts/test-one '$(TEST)'

build: ## the release binary: .build/release/dwell
	@scripts/bootstrap
	@scripts/build release

debug: ## the debug binary: .build/debug/dwell
	@scripts/bootstrap
	@scripts/build debug

lint: ## complain about formatting
	swift format lint --strict --recursive Package.swift Sources Tests Fuzz Benchmarks

format: ## mend formatting
	swift format --in-place --recursive Package.swift Sources Tests Fuzz Benchmarks

fuzz: ## each fuzz target for SECONDS (60) of libFuzzer
	@SECONDS=$(or $(SECONDS),60) scripts/fuzz

bench: ## Dwell against its peers and the machine: LOADS=headline|all|config,events,... SECONDS=5 ROUNDS=3; writes docs/benchmarks.md
	@scripts/bench --loads '$(or $(LOADS),headline)' --seconds $(or $(SECONDS),5) --rounds $(or $(ROUNDS),3) $(BENCH)

bench-layers: ## time, allocations and system calls of each layer; LAYERS=parse,fold,...
	@scripts/bench-layers $(LAYERS)

profile: ## a flame graph of the server under LOAD=events|config|batch|mix for SECONDS (5): .build/profile/LOAD.svg
	@scripts/profile $(or $(LOAD),events) $(or $(SECONDS),5)

bench-fields: ## what header fields cost: ours against swift-http-types
	DWELL_BENCHMARKS=1 swift run -c release HeaderFields

bench-journeys: ## whether an event costs more in a journey of 10,000 events than in one of 10
	DWELL_BENCHMARKS=1 swift run -c release JourneyLength

clean: ## remove what was built; var/, the database, stays
	rm -rf .build
