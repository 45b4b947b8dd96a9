PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test check chaos bench lock clean

demo: .venv/ready
	$(BIN)/punto demo

test: .venv/ready
	$(BIN)/pytest -n 2 --dist worksteal

check: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -n 2 --dist worksteal --cov --cov-report=term

# Writers killed a hundred times, the service fifty times, PostgreSQL twenty times and away for
# 20 seconds, its disk full, 100,000 events by eight writers, 300,000 events to a stream, 200
# readers, a minute of noise, ten thousand random sequences. Two hours or so.
chaos: .venv/ready
	PUNTO_CHAOS=20 $(BIN)/pytest tests/chaos -n 2

bench: .venv/ready
	$(BIN)/python -m scripts.bench
	$(BIN)/python -m scripts.bench_http
	$(BIN)/python -m scripts.bench_feed

# Versions and hashes of everything that is installed, for every platform.
lock:
	$(BIN)/uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-annotate --no-header --output-file requirements.lock

.venv/ready: requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements.lock
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

clean:
	rm -rf .venv build
