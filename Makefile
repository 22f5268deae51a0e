# Most targets are a script of the same name (rivals-full: of rivals), so that people, make and CI run the same thing.
# The stamps under .venv depend on what decides the installation: a second run installs nothing.

.DEFAULT_GOAL := help
.PHONY: help demo test test-all fuzz soak check bench rivals rivals-full policies serve lab page format clean
.SUFFIXES:

installs := pyproject.toml $(wildcard requirements/*.txt) scripts/setup

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: .venv/.stamp-run ## close the loop on a packet-level fabric: a table and a picture against fixed settings
	@scripts/demo

test: .venv/.stamp-dev ## the tests that every change must pass
	@scripts/test

test-all: .venv/.stamp-dev ## those marked slow too (soak, kills, documentation, PostgreSQL, Dask), with branch coverage
	@scripts/test-all

fuzz: .venv/.stamp-dev ## random input for the decoders and every route, ten minutes
	@scripts/fuzz

soak: .venv/.stamp-dev ## a service under load for an hour (MINUTES=5 make soak): does anything grow?
	@scripts/soak

check: .venv/.stamp-dev ## formatting, lint, types, import rules, spelling, changelog
	@scripts/check

bench: .venv/.stamp-bench ## measure speed and accuracy; a table, and JSON in bench/out/
	@scripts/bench

rivals: .venv/.stamp-run ## five tuners on three scenarios: regret, settling, what exploring costs (some minutes)
	@scripts/rivals quick

rivals-full: .venv/.stamp-run ## all tuners, scenarios and ten seeds: hours; goes on where it stopped
	@scripts/rivals full

policies: .venv/.stamp-dev ## train the policies of learned senders again (ten minutes), beside those kept
	@.venv/bin/python -m learn.policies $(ARGS)

serve: .venv/.stamp-run ## the service on http://127.0.0.1:8080 (ARGS="--config FILE" to configure it)
	@.venv/bin/ecntwin serve $(ARGS)

lab: .venv/.stamp-run ## the service on a simulated fabric, until Ctrl-C: a first recommendation within a minute
	@.venv/bin/ecntwin demo --serve $(ARGS)

page: ## build the page from web/ into api/dashboard (needs Node 20)
	@scripts/page

format: .venv/.stamp-dev ## format the code, with ruff's automatic fixes
	@.venv/bin/ruff check --quiet --fix-only . && .venv/bin/ruff format .

clean: ## remove the environment, caches and outputs
	rm -rf .venv .tools web/node_modules .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage .coverage.* build dist bench/out
	find api bench cli lab learn lossless nics rollout service settings store switches telemetry tests twin -type d -name __pycache__ -prune -exec rm -rf {} +

.venv/.stamp-%: $(installs)
	@scripts/setup $*
