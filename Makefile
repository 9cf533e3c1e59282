# Everything happens below this folder: .venv (Python packages) and build (all else).
SHELL := bash
.SHELLFLAGS := -euo pipefail -c

# Once made, .venv stays with its interpreter until another is named.
PYTHON ?= $(or $(wildcard .venv/bin/python),python3)
MAX_JOBS ?= 2
export MAX_JOBS
export HYPOTHESIS_STORAGE_DIRECTORY := build/hypothesis

BIN := .venv/bin
CPP := $(wildcard csrc/*/*.cpp csrc/*/*.h benchmarks/*.cpp examples/cpp/*.cpp examples/cpp/*.h \
	$(foreach folder,cpp consumer device device/fake fake_gpu_ep cuda_emulator compile peers fuzz, \
		tests/$(folder)/*.cpp tests/$(folder)/*.h))
SAY = @printf '[%s] %s\n' $@

.DEFAULT_GOAL := help
.PHONY: help build demo test lint format bench bench-instructions stress soak clean environment \
	cmake library test-cpp test-python test-matrix test-cuda test-asan test-tsan fuzz

help:  ## say what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */  make \1\t/' | expand -t 16

build: build/extension.stamp  ## build the extension in place
	@echo '[build] ortdl_torch is built: $(BIN)/python -c "import ortdl_torch"'

demo: build  ## run real models on real input
	$(BIN)/python examples/magika_demo.py
	$(BIN)/python examples/streaming_vad.py
	$(BIN)/python examples/read_text.py
	$(BIN)/python examples/export_and_back.py
	$(BIN)/python examples/many_processes.py

# The C++ tests are compiled with sanitizers; what is compiled as it is used has Python's tests.
test: test-asan test-tsan test-python  ## run every test, C++ and Python

test-matrix: build cmake  ## test other versions: ONNXRUNTIME="1.24.1 1.32.0" TORCH=2.14.1
	@$(BIN)/cmake --build build/cmake --parallel $(MAX_JOBS) --target ortdl_tests
	@$(BIN)/python tools/matrix.py

bench: build  ## measure against stock onnxruntime; DOCS=1 refreshes docs/figures.md
	$(BIN)/python benchmarks/run.py $(if $(DOCS),--docs)

bench-instructions: build  ## count the instructions of the core paths (needs valgrind)
	$(BIN)/python benchmarks/instructions.py

stress: SECONDS ?= 60
stress: SEED ?= 0
stress: build  ## use one session in many threads for SECONDS=60, from SEED=0
	$(BIN)/python tests/stress/run.py $(SECONDS) $(SEED)

soak: build  ## convert and run for long, and see that no memory stays
	$(BIN)/python tests/soak/run.py

# clang-tidy would take an eighth longer to look for typedef; the one header that has it is C.
lint: build/lint/build.ninja build/facts.stamp  ## check format, style and types
	$(SAY) clang-format
	@$(BIN)/clang-format --dry-run -Werror $(CPP)
	$(SAY) 'using, not typedef'
	@! grep -nw typedef $(filter-out tests/fake_gpu_ep/fake_gpu_ep.h,$(CPP))
	$(SAY) ruff
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	$(SAY) mypy
	@$(BIN)/mypy
	$(SAY) clang-tidy
	@$(BIN)/python tools/tidy.py build/lint

format: environment  ## bring every file into form
	$(BIN)/clang-format -i $(CPP)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean:  ## remove all that the other targets made
	rm -rf .venv .venv-cuda build dist *.egg-info ortdl_torch/_C.*.so
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

environment:
	@$(PYTHON) tools/environment.py

.venv/ready: environment ;

# A folder among the prerequisites stands for the files that come and go in it. Of each command that
# torch's ninja prints, only the source's name is shown. The stamp is as old as the build's start: what
# was edited meanwhile is built next time.
build/extension.stamp: .venv/ready setup.py pyproject.toml tools/exports.map \
		$(wildcard csrc/*/*.cpp csrc/*/*.h) csrc/ortdl csrc/python
	@echo '[build] compiling ortdl_torch._C with $(MAX_JOBS) jobs'
	@mkdir -p build && touch build/extension.started
	@$(BIN)/python setup.py --quiet build_ext --inplace --force \
		| sed -uE 's/^(\[[0-9]+\/[0-9]+\]) .* -c $(subst /,\/,$(CURDIR))\/([^ ]+) .*/\1 \2/'
	@mv build/extension.started $@

# Sources are compiled several at once; clang-tidy gets each one's own command.
build/cmake/build.ninja: CMAKE_FLAGS := -DCMAKE_UNITY_BUILD=ON
build/lint/build.ninja: CMAKE_FLAGS := -DORTDL_PYTHON_COMMANDS=ON
build/cmake/build.ninja build/lint/build.ninja: .venv/ready CMakeLists.txt cmake/ortdlConfig.cmake.in \
		csrc/ortdl csrc/python tests/cpp
	@echo '[cmake] configuring $(@D)'
	@$(BIN)/cmake -S . -B $(@D) -G Ninja --log-level=WARNING \
		-DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python \
		-DORTDL_BUILD_TESTS=ON $(CMAKE_FLAGS)
	@touch $@

cmake: build/cmake/build.ninja

# What programs in C++ link with.
library: cmake
	$(SAY) 'compiling libortdl.so with $(MAX_JOBS) jobs'
	@$(BIN)/cmake --build build/cmake --parallel $(MAX_JOBS) --target ortdl

test-cpp: cmake  ## run the C++ tests as they are compiled for use
	$(SAY) 'compiling with $(MAX_JOBS) jobs'
	@$(BIN)/cmake --build build/cmake --parallel $(MAX_JOBS)
	@$(BIN)/ctest --test-dir build/cmake --parallel $(MAX_JOBS) --output-on-failure

build/facts.stamp: .venv/ready $(wildcard csrc/ortdl/*.h tests/compile/*)
	@echo '[facts] compiling what is assumed of CUDA and HIP'
	@$(BIN)/python tests/compile/check.py
	@touch $@

test-cuda:  ## run tests/cuda on real GPUs, else on emulated ones
	@$(PYTHON) tools/test_cuda.py

test-asan: environment  ## run the C++ tests with sanitizers of addresses, leaks and more
	@$(BIN)/python tools/sanitize.py address $(PARTS)

test-tsan: environment  ## run the core's C++ tests with the sanitizer of threads
	@$(BIN)/python tools/sanitize.py thread $(PARTS)

# Needs clang, so no other target asks for it: see tests/fuzz/README.md.
fuzz: SECONDS ?= 60
fuzz: environment
	$(BIN)/python tests/fuzz/run.py $(TARGET) $(SECONDS)

# Whole files go to the workers, in order: the peers, which start threads, come after the tests that
# fork. Each worker has a core, and torch as many threads.
test-python: build library
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses=$(MAX_JOBS) --dist=loadfile \
		--no-loadscope-reorder
