# every target works from a clean clone with Python >= 3.10, g++ and make
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SUFFIXES:
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c

PYTHON ?= python3
JOBS ?= 2
WERROR ?= OFF
FUZZ_COUNT ?= 20000
ARCH ?= 90

VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check --quiet
SANITIZED := build/sanitized
SANITIZED_PY := $(SANITIZED)/venv/bin/python
ASAN := LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libstdc++.so)" \
        ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1

CXX_FOLDERS := core core/* engine engine/* bindings tests/native
CXX_FILES := $(foreach folder,$(CXX_FOLDERS),$(wildcard $(folder)/*.hpp) $(wildcard $(folder)/*.cpp))
NATIVE := CMakeLists.txt pyproject.toml constraints.txt $(CXX_FILES) $(wildcard third_party/xla_ffi/xla/ffi/api/*)
STUB := src/featherback/_core.pyi
PYTHON_FILES := $(wildcard src tests tools bench examples)

# cmake and ninja are taken from the system where they exist
BUILD_TOOLS := $(if $(shell command -v cmake),,cmake) $(if $(shell command -v ninja),,ninja)

.PHONY: help demo test testgpu cuda check bench corpus pairs placements fuzz mutate nightly format clean

help:  ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## */\1|/' | \
	  while IFS='|' read -r name text; do printf '  make %-8s %s\n' "$$name" "$$text"; done

demo: $(VENV)/.built  ## throw a ball by gradients and by CMA-ES; save the plot and a film
	@$(PY) -m featherback run throw --out demo

test: $(VENV)/.test-tools  ## run the tests
	@$(PY) -m pytest -n $(JOBS) -m "not slow" tests

cuda: $(VENV)/.built  ## compile the kernels for a GPU, where nvcc is; ARCH="80 90 100" for more than sm_90
	@$(PY) -m tools.cuda --arch $(ARCH)

testgpu: $(VENV)/.test-tools  ## run the tests that need a GPU, and measure
	@$(PIP) install -c constraints.txt -e '.[cuda]'
	@$(PIP) install -c constraints.txt 'jax[cuda13]' || echo "make: JAX has no CUDA here; its tests are skipped"
	@$(PY) bench/gpu.py

check: $(VENV)/.check-tools $(VENV)/.test-tools  ## run formatters, linters, types, the rules between layers, and nvcc where it is
	@$(PY) -m ruff format --check $(PYTHON_FILES)
	@$(PY) -m ruff check $(PYTHON_FILES)
	@$(PY) -m pyright --pythonpath $(PY)
	@$(VENV)/bin/clang-format --dry-run -Werror $(CXX_FILES)
	@$(VENV)/bin/lint-imports --no-cache
	@$(VENV)/bin/codespell
	@$(PY) -m nanobind.stubgen -q -m featherback._core -o build/_core.pyi
	@cmp -s build/_core.pyi $(STUB) || { \
	  echo "make: $(STUB) differs from the extension; run make format"; exit 1; }
	@$(PY) tools/write_arguments.py --check
	@$(PY) -m tools.check
	@$(PY) -m tools.check.tidy
	@$(PY) -m tools.check.cuda

bench: $(VENV)/.built  ## measure the budgets in short form, count instructions and name what got slower
	@$(PY) bench/run.py --quick
	@$(PY) bench/count.py

corpus: $(VENV)/.built  ## load and step every robot of the corpus, and compare its dynamics with MuJoCo
	@$(PY) -m tools.corpus

pairs: $(VENV)/.built $(VENV)/.test-tools  ## print which pairs of shapes are checked, from the results of their tests
	@$(PY) -m tools.pairs

placements: $(VENV)/.built $(VENV)/.test-tools  ## check 100 000 placements of every pair of shapes against two references
	@$(PY) -m tools.placements --count 100000 --gradients 10000

fuzz: $(SANITIZED)/.built  ## load mutated models with the sanitised extension
	@$(ASAN) $(SANITIZED_PY) -m tools.fuzz.models --count $(FUZZ_COUNT)

mutate: $(VENV)/.test-tools  ## make every small mistake in the adjoints and see whether the tests notice
	@$(PY) -m tools.mutate.run --all --resume --keep --jobs $(JOBS)

nightly: check $(VENV)/.test-tools  ## run everything, slow tests, corpus, fuzz, mutants and benchmarks included
	@$(PY) -m pytest -n $(JOBS) tests
	@$(MAKE) --no-print-directory corpus fuzz mutate bench

format: $(VENV)/.check-tools $(VENV)/.built  ## format Python and C++, renew the types of the extension
	@$(PY) -m nanobind.stubgen -q -m featherback._core -o $(STUB)
	@$(PY) tools/write_arguments.py
	@$(PY) -m ruff check --fix-only --quiet $(PYTHON_FILES)
	@$(PY) -m ruff format $(PYTHON_FILES)
	@$(VENV)/bin/clang-format -i $(CXX_FILES)

clean:  ## remove the environment and everything built
	@rm -rf $(VENV) build dist demo runs .pytest_cache .ruff_cache .hypothesis

# the tools that must be there before anything can be built
define require_tools
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || { \
	  echo "make: $(PYTHON) is not Python 3.10 or newer; install one, or name it: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "make: $(PYTHON) has no venv module; install it (Debian, Ubuntu: apt install python3-venv)"; exit 1; }
	@command -v $(CXX) >/dev/null || { \
	  echo "make: no C++ compiler $(CXX); install one (Debian, Ubuntu: apt install g++), or name it: make CXX=clang++"; \
	  exit 1; }
endef

$(VENV)/.created:
	$(require_tools)
	@echo "make: creating $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install -c constraints.txt pip
	@touch $@

$(VENV)/.built: $(VENV)/.created $(NATIVE)
	@echo "make: building featherback (the first time takes a few minutes)"
	@$(PIP) install -c constraints.txt --group build $(BUILD_TOOLS)
	@CXX="$(CXX)" $(PIP) install -c constraints.txt --no-build-isolation -e '.[opt,plot]' \
	  -Ccmake.define.FEATHERBACK_ORACLE=ON -Ccmake.define.FEATHERBACK_WERROR=$(WERROR)
	@touch $@

$(VENV)/.test-tools: $(VENV)/.built
	@$(PIP) install -c constraints.txt --group test
	@touch $@

$(VENV)/.check-tools: $(VENV)/.created pyproject.toml constraints.txt
	@$(PIP) install -c constraints.txt --group check
	@touch $@

$(SANITIZED)/.built: $(NATIVE) $(shell find src/featherback -name '*.py')
	$(require_tools)
	@echo "make: building featherback with sanitizers"
	@test -x $(SANITIZED_PY) || $(PYTHON) -m venv $(SANITIZED)/venv
	@$(SANITIZED_PY) -m pip --quiet install -c constraints.txt pip
	@$(SANITIZED_PY) -m pip --quiet install -c constraints.txt --group build $(BUILD_TOOLS)
	@CXX="$(CXX)" $(SANITIZED_PY) -m pip --quiet install -c constraints.txt --no-build-isolation . \
	  -Cbuild-dir=$(SANITIZED)/cmake -Ccmake.define.FEATHERBACK_SANITIZE=ON
	@touch $@
