# `make help` lists the targets. Each target sets up its own tools; a second run does not repeat finished work.

PYTHON ?= python3
VENV := .venv
WHEEL_ENV := build/wheel-env
GPU_ENV := build/gpu-env
# Set GPU_PYTHON to a Python that has TensorFlow for GPUs, the wheel and the packages in requirements/pytest.txt: the GPU
# targets then install nothing and need no network.
ifdef GPU_PYTHON
GPU_READY :=
else
GPU_PYTHON := $(GPU_ENV)/bin/python
GPU_READY := $(GPU_ENV)/installed
endif
QEMU := build/qemu
AARCH64 := build/aarch64
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
# Makes each of the targets, even if another one fails. Then names those that failed.
MAKE_EACH = failed=; \
	for target in $(1); do $(MAKE) --no-print-directory TURN=$(TURN) $$target || failed+=" $$target"; done; \
	[ -z "$$failed" ] || { echo "==> failed:$$failed" >&2; exit 1; }

# Builds with make treat warnings as errors; builds with pip do not.
export TF_RNN_OPS_BAZEL_CONFIG := strict
# make builds for the TensorFlow in .venv.
unexport TF_RNN_OPS_PYTHON
# Many tests start processes that mostly import TensorFlow, on one core.
PYTEST := pytest --numprocesses=auto --maxprocesses=4 --dist=worksteal
# Hide pip's notice about newer versions: the environments use the pip bundled with Python.
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Packages from a registry must match a hash in a lock file of requirements/. Wheels come from dist/.
INSTALL_LOCKED := -m pip install --require-hashes
INSTALL_WHEEL := -m pip install --quiet --no-index

WHEEL_SOURCES := $(shell find cc tf_rnn_ops third_party -type f -not -name '*.pyc') BUILD WORKSPACE .bazelrc .bazelversion \
	LICENSE README.md build_pip_pkg.sh libtf_rnn_ops.lds pyproject.toml tools/hatch_build.py tools/bazel.sh tools/shell.sh \
	tools/aarch64_gcc.sh
SHELL_SCRIPTS := $(wildcard *.sh tools/*.sh) .ci/run
CC_SOURCES := $(shell find benchmarks cc examples third_party -name '*.cc' -o -name '*.c' -o -name '*.cu' -o -name '*.h')
BAZEL_FILES := $(shell find . -path ./node_modules -prune -o -path './$(VENV)' -prune -o -path './build' -prune \
	-o \( -name BUILD -o -name WORKSPACE -o -name '*.bzl' -o -name '*.BUILD' \) -type f -print)

# Targets with a description name no files.
.PHONY: $(shell sed -nE 's/^([a-z0-9-]+):.*\#\#.*/\1/p' Makefile)
help: ## List the targets.
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 24

# ---------------------------------------------------------------- set-up

.tools/system-packages: tools/setup_system.sh tools/shell.sh
	@PYTHON=$(PYTHON) tools/setup_system.sh
	@mkdir -p .tools && touch $@

# Bazelisk and buildifier.
node_modules/ready: package-lock.json | .tools/system-packages
	@echo "==> installing Bazelisk and buildifier from npm"
	@npm ci --no-audit --no-fund
	@touch $@

.tools/bazel: tools/setup_bazel.sh tools/shell.sh .bazelversion node_modules/ready
	@tools/setup_bazel.sh --install
	@touch $@

# Each environment below build/ has these layers of requirements/. build/tensorflow-2.20 and, with another Python,
# build/tensorflow-2.20-python3.13 have the layer of that version.
LAYERS_gpu-env := tensorflow pytest gpu
LAYERS_sdist-env := tensorflow
LAYERS = $(or $(LAYERS_$*),tensorflow_$(word 2,$(subst -, ,$*)) pytest)
NEW_ENV = echo "==> installing $(2) into $(@D)"; rm -rf $(@D); $(1) -m venv $(@D); \
	$(@D)/bin/python $(INSTALL_LOCKED) --quiet $(2:%=-r requirements/%.txt)
LAYER_FILES = $(LAYERS:%=requirements/%.txt)
.SECONDEXPANSION:
build/%/ready: $$(LAYER_FILES) | .tools/system-packages
	@$(call NEW_ENV,$(or $(word 3,$(subst -, ,$*)),$(PYTHON)),$(LAYERS))
	@touch $@

# The folder of the repository has the package's source.
IMPORT_WHEEL = cd / && $(CURDIR)/$(@D)/bin/python -m tf_rnn_ops

$(VENV)/ready: requirements/tensorflow.txt requirements/pytest.txt requirements/dev.txt | .tools/system-packages
	@echo "==> installing the development environment into $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(VENV)/bin/python $(INSTALL_LOCKED) -r requirements/tensorflow.txt -r requirements/pytest.txt -r requirements/dev.txt
	@touch $@

# Install the CPU-only PyTorch if pip finds it, else the build on PyPI.
$(VENV)/peers: requirements/peers.txt requirements/torch.txt requirements/torch_cpu.txt $(VENV)/ready
	@echo "==> installing the frameworks used by comparison tests and benchmarks into $(VENV)"
	@$(VENV)/bin/python $(INSTALL_LOCKED) --quiet -r requirements/peers.txt
	@$(VENV)/bin/python $(INSTALL_LOCKED) --quiet -r requirements/torch_cpu.txt 2>/dev/null || \
		{ echo "==> pip finds no CPU-only PyTorch; installing the build on PyPI"; \
		$(VENV)/bin/python $(INSTALL_LOCKED) --quiet -r requirements/torch.txt; }
	@touch $@

# ---------------------------------------------------------------- the wheel

wheel: dist/ready ## Build the wheel into dist/.
	@ls dist/*.whl

ifeq ($(wildcard dist/*.whl),)
$(shell rm -f dist/ready)
endif
dist/ready: $(WHEEL_SOURCES) $(VENV)/ready | .tools/bazel
	@./build_pip_pkg.sh dist
	@touch $@

# The environments import the package from the wheel, as users do.
$(VENV)/installed $(GPU_ENV)/installed: %/installed: dist/ready %/ready
	@echo "==> installing the wheel into $*"
	@$*/bin/python $(INSTALL_WHEEL) --no-deps --force-reinstall dist/*.whl
	@touch $@

# ---------------------------------------------------------------- wheels for all supported TensorFlow versions

# All versions, oldest first, and those that .venv does not have.
TENSORFLOWS := $(shell sed -nE 's/^tensorflow-versions = \[(.*)\]/\1/p' pyproject.toml | tr -d '",')
DEVELOPMENT_TENSORFLOW := $(patsubst tensorflow_%.txt,%,$(shell readlink requirements/tensorflow.txt))
OTHER_TENSORFLOWS := $(filter-out $(DEVELOPMENT_TENSORFLOW),$(TENSORFLOWS))
BUILD_WHEEL_ALL = TF_RNN_OPS_PYTHON=$$(echo $(1) | tr ' ' :) ./build_pip_pkg.sh dist/all

wheel-all: dist/all/ready $(if $(filter x86_64,$(shell uname -m)),dist/all/aarch64) ## Build the wheels for all TensorFlow versions on x86-64 and Arm into dist/all/.
	@ls dist/all/*.whl

ifeq ($(wildcard dist/all/*.whl),)
$(shell rm -f dist/all/ready dist/all/aarch64)
endif
dist/all/ready: $(WHEEL_SOURCES) $(VENV)/ready $(OTHER_TENSORFLOWS:%=build/tensorflow-%/ready) | .tools/bazel
	@$(call BUILD_WHEEL_ALL,$(VENV)/bin/python $(OTHER_TENSORFLOWS:%=build/tensorflow-%/bin/python))
	@touch $@

build/tensorflow-%/installed: dist/all/ready build/tensorflow-%/ready
	@$(@D)/bin/python $(INSTALL_WHEEL) --find-links dist/all --no-deps --force-reinstall tf_rnn_ops
	@$(IMPORT_WHEEL)
	@touch $@

# Tests of the ways in: what a new version breaks first.
CANARY_TESTS = $(WHEEL_TESTS) $(addprefix tests/test_,accelerate_keras.py builtin_kernels.py exports.py frozen_function.py \
	frozen_streams.py gpu_graphs.py keras_layers.py keras_rnn.py)
# These, and tests of gradients and of parity.
TENSORFLOW_TESTS = $(CANARY_TESTS) $(wildcard $(addprefix tests/test_,*_gradients.py *_parity.py params.py private_names.py))
VERSION := $(firstword $(TENSORFLOWS))

test-tensorflow: build/tensorflow-$(VERSION)/installed ## Test the wheel with another TensorFlow and Python; VERSION=2.20 or 2.20-python3.13.
	@echo "==> Python tests with TensorFlow $(VERSION)"
	@build/tensorflow-$(VERSION)/bin/$(PYTEST) -m "not slow" -p no:cacheprovider $(TENSORFLOW_TESTS) $(OPTIONS)
test-tensorflow-all: ## Run test-tensorflow with all versions but that of .venv.
	@for version in $(OTHER_TENSORFLOWS); do $(MAKE) test-tensorflow VERSION=$$version; done

# pip chooses the newest versions, and so this installs without locks.
canary: $(VENV)/ready .tools/bazel ## Build and test the package with the newest pre-releases of TensorFlow and Keras, which change each day.
	@echo "==> installing the newest pre-releases into build/canary"
	@rm -rf build/canary
	@$(PYTHON) -m venv build/canary
	@build/canary/bin/python -m pip install --quiet --pre --upgrade --upgrade-strategy eager $(CANARY) \
		$$(grep "^[a-z]" requirements/pytest.in)
	@TF_RNN_OPS_PYTHON=build/canary/bin/python ./build_pip_pkg.sh build/canary/dist
	@build/canary/bin/python $(INSTALL_WHEEL) --no-deps build/canary/dist/*.whl
	@cd / && $(CURDIR)/build/canary/bin/python -m tf_rnn_ops
	@build/canary/bin/$(PYTEST) -m "not slow" -p no:cacheprovider $(CANARY_TESTS)
CANARY := tensorflow

# ---------------------------------------------------------------- 64-bit Arm, built and tested on x86-64

$(AARCH64)/ready: tools/setup_aarch64.sh tools/shell.sh
	@tools/setup_aarch64.sh $(AARCH64)
	@touch $@

dist/all/aarch64: $(WHEEL_SOURCES) $(VENV)/ready $(TENSORFLOWS:%=$(AARCH64)/tensorflow-%/ready) | .tools/bazel
	@$(call BUILD_WHEEL_ALL,$(TENSORFLOWS:%=$(AARCH64)/tensorflow-%/bin/python))
	@touch $@

# An environment for the emulated Python. uv installs into it without running it.
INSTALL_AARCH64 = python=$$(readlink $(AARCH64)/system/usr/bin/python3) && $(VENV)/bin/uv pip install --quiet \
	--python-platform aarch64-unknown-linux-gnu --python-version $${python\#python} --target $(@D)/lib/$$python/site-packages
$(AARCH64)/tensorflow-%/ready: requirements/tensorflow_%.txt requirements/pytest.txt tools/aarch64_python.sh $(AARCH64)/ready \
		$(QEMU)/ready $(VENV)/ready
	@echo "==> installing TensorFlow $* for Arm into $(@D)"
	@rm -rf $(@D)
	@mkdir -p $(@D)/bin
	@ln -s $(CURDIR)/tools/aarch64_python.sh $(@D)/bin/python
	@printf 'home = %s\ninclude-system-site-packages = false\n' $(CURDIR)/$(AARCH64)/system/usr/bin >$(@D)/pyvenv.cfg
	@$(INSTALL_AARCH64) --require-hashes -r requirements/tensorflow_$*.txt -r requirements/pytest.txt
	@touch $@

$(AARCH64)/tensorflow-%/installed: dist/all/aarch64 $(AARCH64)/tensorflow-%/ready
	@$(INSTALL_AARCH64) --no-index --no-deps --reinstall dist/all/*_aarch64.whl
	@$(IMPORT_WHEEL)
	@touch $@

AARCH64_ENV := $(AARCH64)/tensorflow-$(DEVELOPMENT_TENSORFLOW)
test-aarch64: test-aarch64-cc test-aarch64-python ## Run the C++ and Python tests for Arm under QEMU.

test-aarch64-cc: $(AARCH64_ENV)/ready .tools/bazel ## Run the C++ unit tests and fuzz corpora of the engine for Arm under QEMU.
	@echo "==> C++ unit tests of the engine for Arm"
	@TF_RNN_OPS_PYTHON=$(AARCH64_ENV)/bin/python tools/bazel.sh test //cc/rnn/... \
		--linkopt=-L$(CURDIR)/$(AARCH64)/lib \
		--run_under="$(CURDIR)/$(QEMU)/usr/bin/qemu-aarch64-static -L $(CURDIR)/$(AARCH64)/system"

test-aarch64-python: $(AARCH64_ENV)/installed ## Run the Python tests of test-tensorflow for Arm under QEMU (an hour).
	@echo "==> Python tests for Arm"
	@$(AARCH64_ENV)/bin/python -P -m $(PYTEST) -m "not slow" -p no:cacheprovider $(TENSORFLOW_TESTS)

# ---------------------------------------------------------------- use

demo: $(VENV)/installed ## Train two character-level language models on Python code and generate text.
	@$(VENV)/bin/python examples/char_language_model.py

bench: $(VENV)/installed $(VENV)/peers build/saved-model-calls/ready ## Benchmark the ops against Keras, PyTorch and ONNX Runtime on the CPU; OPTIONS="--quick" for a short run.
	@$(VENV)/bin/python benchmarks/bench.py $(OPTIONS)

accuracy: $(VENV)/installed $(VENV)/peers ## Compare the quality of trained models with bfloat16 and int8 weights, beside ONNX Runtime; OPTIONS="--quick" for a short run.
	@$(VENV)/bin/python benchmarks/accuracy.py $(OPTIONS)

# A program that serves SavedModels through TensorFlow's C API, for the section `serving` of benchmarks/bench.py.
FIND_TENSORFLOW = import importlib.util; print(*importlib.util.find_spec("tensorflow").submodule_search_locations)
build/saved-model-calls/ready: benchmarks/saved_model_calls.c $(VENV)/ready
	@mkdir -p $(@D)
	@tensorflow=$$($(VENV)/bin/python -c '$(FIND_TENSORFLOW)') && $(CC) -std=c11 -O2 -Wall -Wextra -Werror -pthread \
		-I$$tensorflow/include $< -o $(@D)/saved_model_calls -L$$tensorflow -Wl,-rpath,$$tensorflow \
		-l:libtensorflow_cc.so.2 -l:libtensorflow_framework.so.2
	@touch $@

# valgrind counts the instructions.
.tools/valgrind: tools/shell.sh
	@command -v valgrind >/dev/null || (source tools/shell.sh && install_packages valgrind)
	@mkdir -p .tools && touch $@

costs: $(VENV)/installed .tools/bazel .tools/valgrind ## Compare instructions of the engine, and what calls from Python need, with tools/costs.json; OPTIONS=--accept writes it.
	@echo "==> instructions, Python functions, graphs and bytes"
	@tools/bazel.sh build //cc/rnn:instruction_counts
	@$(VENV)/bin/python tools/costs.py bazel-bin/cc/rnn/instruction_counts $(OPTIONS)

compare: $(VENV)/installed $(VENV)/peers build/saved-model-calls/ready ## Compare the speed of the package with that of another revision, in turns; BASE=revision.
	@tools/build_base.sh "$(BASE)" build/base-package
	@$(VENV)/bin/python benchmarks/compare.py build/base-package $(OPTIONS)

same-bits: $(VENV)/installed ## Check that the wheel gives the same results as another one, bit by bit; BEFORE=path/to.whl.
	@$(VENV)/bin/python tools/result_bits.py $(BEFORE) dist/*.whl

gpu-bench: $(GPU_READY) ## Benchmark the ops against TensorFlow and PyTorch on a GPU.
	@$(GPU_PYTHON) benchmarks/gpu.py $(OPTIONS)

# ---------------------------------------------------------------- the documentation site

$(VENV)/docs: requirements/docs.txt $(VENV)/peers
	@echo "==> installing the documentation tools into $(VENV)"
	@$(VENV)/bin/python $(INSTALL_LOCKED) --quiet -r requirements/docs.txt
	@touch $@

# Warnings, such as broken links and undocumented arguments, are errors. The build runs the notebook. NO_MKDOCS_2_WARNING
# hides a notice of the theme.
MKDOCS := NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs
docs: $(VENV)/installed $(VENV)/docs ## Build the documentation site into build/site.
	@$(MKDOCS) build --quiet
	@echo "the documentation is in build/site/index.html"
docs-serve: $(VENV)/installed $(VENV)/docs ## Serve the documentation site on port 8000, rebuilt at each change.
	@$(MKDOCS) serve

# ---------------------------------------------------------------- checks

# CI has no time for all checks of a release. The content of the files decides which part of them a change gets, so that the
# same commit always gets the same. The nightly workflow runs all.
TURN ?= $(eval TURN := $(shell find benchmarks cc examples stress testing tests tf_rnn_ops third_party tools -type f \
	-not -name '*.pyc' -print0 | LC_ALL=C sort -z | xargs -0 cat | cksum | awk '{ print $$1 % 36 }'))$(TURN)
# A third of the cases of each Python test.
PART ?= $(shell echo $$(($(TURN) % 3)))/3
# And one of three: AddressSanitizer for some of the instruction sets, ThreadSanitizer, or another TensorFlow.
CHOSEN = $(word $(shell echo $$(($(TURN) / 9 % $(words $(1)) + 1))),$(1))
OTHER_TENSORFLOW = $(call CHOSEN,$(OTHER_TENSORFLOWS))
CHECKS_0 = sanitize-memory RUNS_UP_TO=$(call CHOSEN,avx2 avx512 $(RUNS_UP_TO))
CHECKS_1 = sanitize-threads test-wheel TENSORFLOWS=$(DEVELOPMENT_TENSORFLOW)
CHECKS_2 = test-tensorflow VERSION=$(OTHER_TENSORFLOW) OPTIONS=--part=$(PART) \
	TENSORFLOWS="$(filter $(DEVELOPMENT_TENSORFLOW) $(OTHER_TENSORFLOW),$(TENSORFLOWS))"
IN_TURN = $(CHECKS_$(shell echo $$(($(TURN) / 3 % 3))))

ci: ## Run the checks that a change must pass; TURN=0 to 35 chooses those that not every change gets.
	@echo '==> make ci TURN=$(TURN): $(IN_TURN), part $(PART) of the cases'
	@+$(call MAKE_EACH,lint ci-turn docs test costs)

ci-turn: ## Run the checks of `make ci` that not every change gets.
	@$(MAKE) --keep-going $(IN_TURN)

test: ## Run the C++ unit tests and a third of the cases of each Python test; PART=0/1 for all.
	@echo '==> make test PART=$(PART)'
	@+$(call MAKE_EACH,test-cc test-python test-xla-sample)

test-cc: $(VENV)/ready .tools/bazel ## Run the C++ unit tests.
	@echo "==> C++ unit tests"
	@tools/bazel.sh test //...

test-python: $(VENV)/installed $(VENV)/peers build/saved-model-calls/ready ## Run the Python tests of `make test` on the installed wheel.
	@echo "==> Python tests, part $(PART) of the cases; PART=0/1 for all"
	@$(VENV)/bin/$(PYTEST) -m "not slow" --part=$(PART)

test-slow: $(VENV)/installed $(VENV)/peers ## Run the slow Python tests, which CI skips.
	@echo "==> slow Python tests"
	@$(VENV)/bin/$(PYTEST) -m slow

# Tests of results and of rejected input. The mark not_xla is at those that XLA cannot pass.
XLA_TESTS = $(wildcard $(addprefix tests/test_,*_gradients.py *_second_order.py *_layer*.py keras_rnn.py \
	accelerate_keras.py *_parity.py *_bad_input.py *_shapes.py *_dropout.py *_params_ops.py builtin_kernels.py))
XLA_EVERY := 1

# XLA compilation is slow.
test-xla: ## Run the Python tests of the ops and layers with XLA compilation.
test-xla-sample: XLA_EVERY := 20
test-xla-sample: ## Run every 20th test of test-xla.
test-xla test-xla-sample: $(VENV)/installed $(VENV)/peers
	@echo "==> Python tests with XLA compilation"
	@TF_RNN_OPS_TEST_XLA=$(XLA_EVERY) $(VENV)/bin/$(PYTEST) -m "not slow" $(XLA_TESTS)

test-random: $(VENV)/installed $(VENV)/peers ## Run the property tests and the fuzzer with a random seed; SEED=1 CALLS=1000 set them.
	@seed=$${SEED:-$$RANDOM}; \
	echo "==> property tests and fuzzer; to repeat them: make test-random SEED=$$seed"; \
	$(VENV)/bin/$(PYTEST) -m hypothesis --hypothesis-profile=random --hypothesis-seed=$$seed; \
	$(VENV)/bin/python stress/fuzz.py --seed $$seed --calls $${CALLS:-20000}

# Tests that detect a missing or different package. Results of the other tests do not depend on the installed packages.
WHEEL_TESTS := $(addprefix tests/test_,package.py loading.py snapshots.py entry_points.py examples.py)

test-wheel: $(WHEEL_ENV)/installed ## Test all entry points in a new environment with only TensorFlow and the wheel from dist/all/.
	@echo "==> Python tests of all entry points, in an environment with only TensorFlow and the wheel from dist/all/"
	@$(WHEEL_ENV)/bin/$(PYTEST) -m "not slow" -p no:cacheprovider $(WHEEL_TESTS)

# Install TensorFlow and the wheel, import the package from another folder, and only then install pytest.
$(WHEEL_ENV)/installed: requirements/tensorflow.txt requirements/pytest.txt dist/all/ready
	@$(call NEW_ENV,$(PYTHON),tensorflow)
	@$(@D)/bin/python $(INSTALL_WHEEL) --find-links dist/all tf_rnn_ops
	@$(IMPORT_WHEEL)
	@$(@D)/bin/python $(INSTALL_LOCKED) --quiet -r requirements/pytest.txt
	@touch $@

# Tests of the ops that are valid on any device. They name no device, so TensorFlow uses the GPU.
GPU_TESTS := $(wildcard tests/gpu/test_*.py) $(addprefix tests/test_,golden.py gpu_library.py entry_points.py cudnn_rnn_bad_input.py \
	cudnn_rnn_gradients.py cudnn_rnn_params_ops.py cudnn_rnn_layer.py cell_bad_input.py op_bad_input.py \
	gru_block_cell_gradients.py block_cell_layers.py)
# From NVIDIA's Python package if that is installed, else from PATH.
COMPUTE_SANITIZER = $(or $(wildcard $(shell $(GPU_PYTHON) -c "$(PRINT_SITE_PACKAGES)")/nvidia/cu13/bin/compute-sanitizer),\
	compute-sanitizer)
PRINT_SITE_PACKAGES := import sysconfig; print(sysconfig.get_path('purelib'))

# The same program in any folder. In that of the repository, it would import the package's source.
GPU_PROGRAM = $(if $(findstring /,$(GPU_PYTHON)),$(abspath $(GPU_PYTHON)),$(GPU_PYTHON))

gpu-test: $(GPU_READY) ## Run gpu-check, gpu-test-python and gpu-sanitize; GPU_PYTHON=... sets the Python to use.
	@+$(call MAKE_EACH,gpu-check gpu-test-python gpu-sanitize)

gpu-check: $(GPU_READY) ## Compare every op and type on a GPU with the CPU.
	@echo "==> every op and type on a GPU and on the CPU"
	@cd / && $(GPU_PROGRAM) -m tf_rnn_ops --check-gpu

# A GPU error can make all later calls of the process fail.
gpu-test-python: $(GPU_READY) ## Run the Python tests on a GPU, each file in its own process.
	@echo "==> Python tests on a GPU"
	@cd /; status=0; failed=; \
	for file in $(GPU_TESTS:%=$(CURDIR)/%); do \
		echo "==> $$file"; \
		TF_RNN_OPS_TEST_DEVICE=GPU:0 timeout -s KILL 1200 $(GPU_PROGRAM) -m pytest $$file || \
			{ status=$$?; failed+=" $$file: exit status $$status;"; }; \
	done; \
	echo "==> failed:$${failed:- none}"; \
	exit $$status

# For memcheck, the driver allocates every tensor separately. racecheck is limited to our own kernels: we cannot fix
# races in NVIDIA's libraries.
gpu-sanitize: $(GPU_READY) ## Run every GPU kernel once under compute-sanitizer (memcheck and racecheck).
	@cd /; status=0; \
	echo "==> every kernel once under compute-sanitizer's memcheck"; \
	$(RUN_EVERY_KERNEL) --tool memcheck --report-api-errors no $(EVERY_KERNEL) || status=$$?; \
	echo "==> every kernel once under compute-sanitizer's racecheck"; \
	$(RUN_EVERY_KERNEL) --tool racecheck --kernel-name '$(OUR_KERNELS)' $(EVERY_KERNEL) || status=$$?; \
	exit $$status
OUR_KERNELS := regex=gru_block_cell|dual_layer|CopyRows|BFloat16|ApplyDropout
RUN_EVERY_KERNEL = timeout -s KILL 3600 env TF_RNN_OPS_TEST_DEVICE=GPU:0 TF_GPU_ALLOCATOR=cuda_malloc_async $(COMPUTE_SANITIZER) \
	--target-processes all --error-exitcode 1
EVERY_KERNEL = $(GPU_PROGRAM) -m pytest $(CURDIR)/tests/gpu/test_every_kernel.py

# Instruction sets that this CPU lacks are compiled without AddressSanitizer: no test can run them.
CPU_HAS = $(shell grep -qw $(1) /proc/cpuinfo && echo yes)
RUNS_UP_TO = $(if $(call CPU_HAS,amx_bf16),amx,$(if $(call CPU_HAS,avx512_bf16),avx512_bf16,$(if \
	$(call CPU_HAS,avx512_vnni),avx512_vnni,$(if $(call CPU_HAS,avx512f),avx512,avx2))))
sanitize: sanitize-memory sanitize-threads ## Run the C++ unit tests under all sanitizers.

SANITIZED := //cc/ops/... //cc/rnn/... //cc/gpu/... //cc/ffi/...
sanitize-memory: $(VENV)/ready .tools/bazel ## Run the C++ unit tests under AddressSanitizer and UndefinedBehaviorSanitizer.
	@echo "==> C++ unit tests under AddressSanitizer and UndefinedBehaviorSanitizer"
	@tools/bazel.sh test --config=asan --define=runs_up_to=$(RUNS_UP_TO) $(SANITIZED)

# ThreadSanitizer runs with --config=baseline only: except for bfloat16, work is divided among threads the same way with
# all instruction sets, and compiling all of them takes minutes more.
sanitize-threads: $(VENV)/ready .tools/bazel ## Run the C++ unit tests under ThreadSanitizer.
	@echo "==> C++ unit tests under ThreadSanitizer"
	@tools/bazel.sh test --config=tsan --config=baseline $(SANITIZED)

# ---------------------------------------------------------------- fuzzing, stress tests and builds in other environments

fuzz: $(VENV)/installed ## Fuzz the ops with nearly valid arguments and check the results; OPTIONS="--calls 1000" for a short run.
	@$(VENV)/bin/python stress/fuzz.py $(OPTIONS)

# OPTIONS: --seconds N per target, --merge to rebuild the corpus, names of targets.
fuzz-engine: $(VENV)/ready .tools/bazel ## Fuzz the C++ engine with libFuzzer, a minute per target; OPTIONS="--seconds 1200" for longer.
	@tools/fuzz_engine.sh $(OPTIONS)

soak: $(VENV)/installed $(VENV)/peers ## Stress the ops: threads, long training, long sequences, out of memory, packed weights; OPTIONS="--soak 5" for longer.
	@$(VENV)/bin/pytest -rP --soak 1 tests/test_robustness.py $(OPTIONS)

memcheck: $(VENV)/installed $(VENV)/peers ## Run the Python tests of the ops under AddressSanitizer and UndefinedBehaviorSanitizer.
	@echo "==> Python tests under AddressSanitizer and UndefinedBehaviorSanitizer"
	@tools/memcheck.sh $(OPTIONS)

# TensorFlow's own kernels require AVX and F16C; QEMU does not emulate AVX-512. OPENBLAS_CORETYPE limits NumPy's OpenBLAS,
# which the reference uses, to AVX: it otherwise assumes AVX2 on some emulated CPUs.
QEMU_USER := TF_CPP_MIN_LOG_LEVEL=3 OPENBLAS_CORETYPE=Sandybridge $(QEMU)/usr/bin/qemu-x86_64-static
emulate: $(VENV)/installed $(VENV)/peers $(QEMU)/ready ## Run every op on emulated CPUs without and with AVX2.
	@$(QEMU_USER) -cpu IvyBridge $(VENV)/bin/python stress/one_cpu.py --instruction-set baseline
	@$(QEMU_USER) -cpu Haswell $(VENV)/bin/python stress/one_cpu.py --instruction-set avx2

$(QEMU)/ready:
	@echo "==> fetching Debian's QEMU into $(QEMU)"
	@rm -rf $(QEMU)
	@mkdir -p $(QEMU)
	@cd $(QEMU) && apt-get download qemu-user-static && dpkg-deb -x qemu-user-static_*.deb . && rm qemu-user-static_*.deb
	@touch $@

coverage: $(VENV)/installed $(VENV)/peers build/saved-model-calls/ready .tools/bazel ## Show which lines and branches of the code the tests run.
	@tools/coverage.sh $(OPTIONS)

mutants: $(VENV)/installed $(VENV)/peers .tools/bazel ## Change random lines of code, and check that tests fail; OPTIONS="python --count 150".
	@$(VENV)/bin/python tools/mutants.py $(OPTIONS)

test-serving: $(VENV)/installed .tools/bazel ## Build a C++ program with the ops linked in, and serve a SavedModel with it.
	@tools/test_serving.sh

sdist: $(VENV)/ready ## Build the source distribution into dist/all/.
	@rm -f dist/all/*.tar.gz
	@$(VENV)/bin/python -m build --sdist --no-isolation --outdir dist/all .

test-sdist: sdist build/sdist-env/ready .tools/bazel ## Install the source distribution with pip, uv and build.
	@tools/test_sdist.sh dist/all/*.tar.gz build/sdist-env

reproduce: dist/ready ## Rebuild the wheel in another folder without caches, and compare it byte by byte.
	@tools/reproduce.sh dist/*.whl

# ---------------------------------------------------------------- code

lint: $(VENV)/ready node_modules/ready ## Check formatting, style and types.
	@$(VENV)/bin/clang-format --dry-run --Werror $(CC_SOURCES)
	@node_modules/.bin/buildifier -mode=check -lint=warn $(BAZEL_FILES)
	@$(VENV)/bin/ruff format --check
	@$(VENV)/bin/ruff check
	@$(VENV)/bin/mypy
	@$(VENV)/bin/python tools/check_accessors.py
	@$(VENV)/bin/shellcheck -x -P SCRIPTDIR $(SHELL_SCRIPTS)
	@echo "lint: clean"

format: $(VENV)/ready node_modules/ready ## Format all code.
	@$(VENV)/bin/clang-format -i $(CC_SOURCES)
	@node_modules/.bin/buildifier -mode=fix -lint=fix $(BAZEL_FILES)
	@$(VENV)/bin/ruff format
	@$(VENV)/bin/ruff check --fix
	@$(VENV)/bin/ruff format

LOCK := $(VENV)/bin/uv pip compile --universal --python-version 3.10 --generate-hashes --no-header --no-emit-find-links \
	--no-python-downloads --upgrade
# In an .overrides file are requirements that differ between a package's wheels: uv reads one wheel's.
# A layer omits packages that the layers named with -c in its .in file install here. uv appends a list of them; sed deletes it.
LOCK_LAYER = $(LOCK) requirements/$$layer.in -o requirements/$$layer.txt \
	$$(find requirements -name $$layer.overrides -printf '--override %p') $$(sed -n 's|^-c |requirements/|p' \
	requirements/$$layer.in | xargs -r sed -nE '/win32/!s/^([a-z0-9-]+)==.*/--no-emit-package=\1/p') $(1); \
	sed -i '/^$$/,$$d' requirements/$$layer.txt
# A folder or page with the CPU-only builds of PyTorch.
TORCH_CPU_BUILDS ?= $(or $(PIP_FIND_LINKS),https://download.pytorch.org/whl/cpu/torch/)
lock: $(VENV)/ready ## Pin the newest versions that requirements/*.in allow, with their hashes.
	@for layer in $(TENSORFLOWS:%=tensorflow_%) pytest dev peers docs torch gpu; do $(LOCK_LAYER); done
	@layer=torch_cpu; $(call LOCK_LAYER,--find-links $(TORCH_CPU_BUILDS))

clean: ## Remove all build results, environments and downloaded tools.
	rm -rf $(VENV) .tools build dist node_modules bazel-*
