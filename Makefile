# Every command of this repository. `make` lists them.
#
# Variables: BACKEND=cuda|emu  where kernels run (default: cuda if nvcc and a GPU are there, else the emulator)
#            ARCH=90a          compute capability to build for (default: the local GPU's)
#            GPU=h100          whose results, docs/results/GPU/ (default: the one that docs/results/shown names, which the pages show)
#            CC, CXX           gcc or clang; NVCC; SHAPE, PASS, SUITE, ARGS as `make help` says; DEBUG=1 for -O0
SHELL := /bin/bash
include common/typed.mk
# As many jobs as cores, unless -j says otherwise.
MAKEFLAGS += -j$(shell nproc 2>/dev/null || echo 2)
# No rules but those of this file: make would try its own on every header that it knows of, for half a second.
MAKEFLAGS += -r
.DEFAULT_GOAL := help
.SECONDARY:
.DELETE_ON_ERROR:
include common/machine.mk

# ---------------------------------------------------------------- files
B := build/$(BACKEND)
STEP_FOLDERS := $(patsubst %/main.c,%,$(wildcard [0-9][0-9]_*/main.c))
STEPS := $(foreach f,$(STEP_FOLDERS),$(firstword $(subst _, ,$(f))))
folder = $(filter $(1)_%,$(STEP_FOLDERS))
# Tools of the harness, and of a step: these are linked with its kernels.
STEP_TOOLS := $(wildcard [0-9][0-9]_*/tools/*.c)
TOOLS := $(basename $(notdir $(wildcard common/tools/*.c) $(STEP_TOOLS)))
HARNESS := $(patsubst %,$(B)/%.o,$(wildcard $(foreach r,conv cudnn files harness,common/$(r)/*.c common/$(r)/*.cu)) 00_cpu_reference/a_definition.c)
LIBRARY := $(B)/libharness.a
step_objects = $(filter-out $(HARNESS),$(patsubst %,$(B)/%.o,$(wildcard $(call folder,$(1))/*.c $(call folder,$(1))/*.cu))) $(B)/$(call folder,$(1))/kernel_sources.c.o
# Tests of the emulator itself make no sense on a GPU; emu_features, emu_warps and emu_half hold on both: what they prove of the emulator, a GPU does too.
NEED_EMULATOR = tests/emu_api% tests/emu_failures% tests/emu_rewrite% tests/emu_aarch64% tests/emu_sms% tests/emu_tensor% tests/emu_box% tests/emu_wgmma_product% tests/emu_matrices% tests/emu_arch% tests/check_% tests/count_%
EMU_ONLY = $(if $(filter cuda,$(BACKEND)),$(NEED_EMULATOR))
# One program for each step: tests/identities.c and tests/plans.c with the step's table of kernels.
STEP_TESTS = $(patsubst %,$(B)/tests/identities_%,$(filter-out 00,$(STEPS))) $(patsubst %,$(B)/tests/plans_%,$(STEPS))
TESTS = $(patsubst %,$(B)/%,$(basename $(filter-out tests/identities.c tests/plans.c $(EMU_ONLY),$(wildcard tests/*.c tests/*.cu)))) $(STEP_TESTS)
TEST_SCRIPTS = $(filter-out $(EMU_ONLY),$(wildcard tests/*.sh))

# Whose results: docs/results/GPU/. What the pages show is named in one file, for scripts too.
SHOWN := $(shell cat docs/results/shown 2>/dev/null)
GPU ?= $(SHOWN)
GPUS := $(filter-out emulator cpu,$(sort $(notdir $(patsubst %/,%,$(dir $(wildcard docs/results/*/*.csv))))))

# V=1 prints whole commands, else one short line each.
Q := $(if $(filter-out 0,$(V)),,@)
say = $(if $(filter-out 0,$(V)),,@echo "  $(1)")
override DEBUG := $(filter-out 0,$(DEBUG))
OPTIMIZE := $(if $(DEBUG),-O0,-O2)
# Lines and functions for reports and backtraces; local variables, which cost a fifth of the compiler's time, for a debugger.
DEBUG_INFO := $(if $(DEBUG),-g,-g1)
WARNINGS := -Wall -Wextra -Werror
CFLAGS_ALL = -std=c17 -D_GNU_SOURCE $(OPTIMIZE) $(DEBUG_INFO) $(WARNINGS) $(OPENMP) $(if $(OPENMP),,-Wno-unknown-pragmas) -I. -MMD -MP $(CFLAGS)

# ---------------------------------------------------------------- the two backends
ifeq ($(BACKEND),cuda)
CUDA_INCLUDE := $(patsubst -I%,-isystem %,$(shell $(NVCC) --dryrun -x cu /dev/null -c 2>&1 | sed -n 's/^.. INCLUDES="\(.*\)" *$$/\1/p'))
CFLAGS_ALL += $(CUDA_INCLUDE)
RUNTIME :=
LINK = $(NVCC) -ccbin $(CXX) $(GENCODE) $(if $(OPENMP),-Xcompiler $(OPENMP)) $(LDFLAGS) -o $@ $(filter-out $(STAMP),$^) -lm -ldl
else
CFLAGS_ALL += -Icommon/emu/include
EMU_SOURCES := $(wildcard $(foreach r,check count run runtime tool,common/emu/$(r)/*.c))
RUNTIME := $(patsubst %,$(B)/%.o,$(EMU_SOURCES) $(wildcard common/emu/run/*.S))
REWRITE := $(B)/rewrite
# Debug information that finds a kernel's lines: through #line (DWARF 4), and inside templates (g++ only).
CXX_DEBUG := -gdwarf-4 $(DEBUG_INFO) $(shell echo | $(CXX) -gno-statement-frontiers -x c++ -c - -o /dev/null 2>/dev/null && echo -gno-statement-frontiers)
# A frame larger than the page below a stack touches each of its own pages, so that none leaps over that one into another thread's stack. Smaller ones cost nothing.
STACK_PROBES := $(shell for f in "-fstack-clash-protection --param stack-clash-protection-guard-size=12" -fstack-clash-protection; do echo | $(CXX) -Werror $$f -x c++ -c - -o /dev/null 2>/dev/null && echo $$f && break; done)
CXXFLAGS_ALL = -std=c++20 $(OPTIMIZE) $(CXX_DEBUG) $(STACK_PROBES) $(WARNINGS) -Wno-unknown-pragmas -Wno-psabi -Wno-pass-failed -Icommon/emu/include -I$(B)/gen -I. -MMD -MP $(CXXFLAGS)
# By gold, where it is here: a build links a hundred and forty programs, tests and the grader of exercises hundreds that run once, and it takes a third of the time.
GOLD := $(shell echo 'int main(void){return 0;}' | $(CXX) -fuse-ld=gold -x c++ - -o /dev/null 2>/dev/null && echo -fuse-ld=gold)
LINK = $(CXX) $(OPENMP) -rdynamic $(GOLD) $(LDFLAGS) -o $@ $(filter-out $(STAMP),$^) -lm -ldl -lpthread
GENERATED_HEADERS := $(patsubst %,$(B)/gen/%,$(wildcard common/*/*.cuh [0-9][0-9]_*/*.cuh tests/*.cuh))
endif
NVCC_FLAGS = -std=c++20 -O3 -lineinfo -I. -Werror all-warnings -Xcompiler -Wall,-Wextra,-Werror
# A kernel that spills registers on Hopper fails the build; one whose wgmma ptxas serializes too (scripts/nvcc_strict.sh).
STRICT_PTXAS = $(if $(filter 90a,$(1)),-Xptxas -warn-spills -Xptxas -Werror)

# What everything was compiled with: when it changes, everything is compiled again.
STAMP := $(B)/flags
FLAGS = $(CC) $(CXX) $(NVCC) | $(CFLAGS_ALL) | $(CXXFLAGS_ALL) | $(NVCC_FLAGS) $(GENCODE) $(LDFLAGS) | $(sort $(HARNESS) $(RUNTIME))
.PHONY: force
$(STAMP): force
	@$(call compilers_are_here) && \
	mkdir -p $(@D) && { printf '%s\n' $(call quote,$(FLAGS)) | cmp -s - $@ || printf '%s\n' $(call quote,$(FLAGS)) >$@; }

$(B)/%.c.o: %.c $(STAMP)
	@mkdir -p $(@D)
	$(call say,$(notdir $(CC)) $<)
	$(Q)$(CC) $(CFLAGS_ALL) -c $< -o $@
# The hashes of a step's kernels, for their rows: written, and compiled, again only when one has changed.
$(patsubst %,$(B)/%/kernel_sources.c,$(STEP_FOLDERS)): $(B)/%/kernel_sources.c: force
	@mkdir -p $(@D); scripts/sources.pl table $* >$@.new && { cmp -s $@.new $@ || cp $@.new $@; } && rm $@.new
$(B)/%/kernel_sources.c.o: $(B)/%/kernel_sources.c $(STAMP)
	$(Q)$(CC) $(CFLAGS_ALL) -c $< -o $@
# The CPU contender, the measured roof and the reference use every instruction of this CPU.
$(B)/00_cpu_reference/%.c.o $(B)/common/conv/reference_rows.c.o: private OPTIMIZE := $(if $(DEBUG),-O0,-O3) $(NATIVE)

ifeq ($(BACKEND),cuda)
$(B)/%.cu.o: %.cu $(STAMP)
	@mkdir -p $(@D)
	$(call say,nvcc $<)
	$(Q)scripts/nvcc_strict.sh $(NVCC) -ccbin $(CXX) $(NVCC_FLAGS) $(GENCODE) $(if $(filter 1,$(words $(ARCH))),$(call STRICT_PTXAS,$(ARCH))) -MMD -MP -c $< -o $@
else
$(REWRITE): $(patsubst %,$(B)/%.o,$(wildcard common/emu/rewrite/*.c) common/files/input.c common/files/output.c)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^
$(B)/gen/%.cu.cpp: %.cu $(REWRITE)
	@mkdir -p $(@D)
	$(Q)$(REWRITE) $< $@
$(B)/gen/%.cuh: %.cuh $(REWRITE)
	@mkdir -p $(@D)
	$(Q)$(REWRITE) $< $@
$(B)/%.cu.o: $(B)/gen/%.cu.cpp $(B)/every_kernel.h.gch $(STAMP) | $(GENERATED_HEADERS)
	@mkdir -p $(@D)
	$(call say,$(notdir $(CXX)) $(patsubst $(B)/gen/%.cpp,%,$<))
	$(Q)$(CXX) $(call already_read,$(B)) $(CXXFLAGS_ALL) -c $< -o $@
$(B)/%.S.o: %.S
	@mkdir -p $(@D)
	$(Q)$(CC) -g -c $< -o $@
endif

# ---------------------------------------------------------------- programs
define step_rules
$(B)/$(1): $(call step_objects,$(1)) $(LIBRARY)
	$$(call say,link $$@)
	$$(Q)$$(LINK)
.PHONY: $(1) run-$(1)
$(1): $(B)/$(1) ## build step $(1)
run-$(1): $(B)/$(1)
	@$(B)/$(1) $$(RUN_ARGS)
endef
RUN_ARGS = $(if $(BATCH),--batch $(call quote,$(BATCH))) $(if $(RANDOM_SHAPES),--random $(call quote,$(RANDOM_SHAPES))) $(if $(SHAPE),--shape $(call quote,$(SHAPE))) $(if $(SUITE),--suite $(call quote,$(SUITE))) $(if $(PASS),--pass $(call quote,$(PASS))) $(if $(KERNEL),--kernel $(call quote,$(KERNEL))) $(ARGUMENTS)
$(foreach s,$(STEPS),$(eval $(call step_rules,$(s))))

$(B)/tools/%: $(B)/common/tools/%.c.o $(LIBRARY)
	@mkdir -p $(@D)
	$(call say,link $@)
	$(Q)$(LINK)
# Every step's kernels: what a whole network takes them from.
ALL_KERNELS = $(B)/all_steps.c.o $(filter-out %/main.c.o,$(foreach s,$(filter-out 00,$(STEPS)),$(call step_objects,$(s))))
# What a tool has beside its main() stands in a folder of its name.
define step_tool_rule
$(B)/tools/$(notdir $(basename $(1))): $(patsubst %,$(B)/%.o,$(1) $(wildcard $(basename $(1))/*.c $(basename $(1))/*.cu)) $(filter-out %/main.c.o,$(call step_objects,$(firstword $(subst _, ,$(1))))) $(if $(filter network recurrent fusion,$(notdir $(basename $(1)))),$(ALL_KERNELS)) $(LIBRARY)
	@mkdir -p $$(@D)
	$$(call say,link $$@)
	$$(Q)$$(LINK)
endef
$(foreach t,$(STEP_TOOLS),$(eval $(call step_tool_rule,$(t))))
# Kernels of these only nvcc compiles.
ifeq ($(BACKEND),cuda)
$(B)/tools/calibrate: $(patsubst %,$(B)/%.o,$(wildcard common/tools/calibrate/*.cu))
endif
$(B)/tests/%: $(B)/tests/%.c.o $(LIBRARY)
	@mkdir -p $(@D)
	$(call say,link $@)
	$(Q)$(LINK)
$(B)/tests/%: $(B)/tests/%.cu.o $(LIBRARY)
	@mkdir -p $(@D)
	$(call say,link $@)
	$(Q)$(LINK)
# Kernels of several steps in one program: the registry of all steps, the last first.
GPU_STEP_NUMBERS := $(filter-out 00,$(STEPS))
$(B)/all_steps.c: Makefile $(foreach f,$(STEP_FOLDERS),$(f)/kernels.c)
	@mkdir -p $(@D); { echo '#include "common/harness/registry.h"'; printf 'extern const conv_step step_%s;\n' $(GPU_STEP_NUMBERS); echo 'const conv_step *const all_steps[] = {'; printf '  &step_%s,\n' $(GPU_STEP_NUMBERS) | sort -r; echo '  NULL,'; echo '};'; } >$@
$(B)/all_steps.c.o: $(B)/all_steps.c $(STAMP)
	$(Q)$(CC) $(CFLAGS_ALL) -c $< -o $@
$(B)/tools/graph: $(B)/common/tools/graph.c.o $(ALL_KERNELS) $(LIBRARY)
	@mkdir -p $(@D)
	$(call say,link $@)
	$(Q)$(LINK)
$(B)/tests/graph $(B)/tests/early $(B)/tests/early_chains: $(B)/tests/%: $(B)/tests/%.c.o $(filter-out %/main.c.o,$(call step_objects,04) $(call step_objects,05) $(call step_objects,06) $(call step_objects,07)) $(LIBRARY)
	@mkdir -p $(@D)
	$(call say,link $@)
	$(Q)$(LINK)
$(B)/tests/should_fuse: $(B)/tests/should_fuse.c.o $(B)/07_fusion/should_fuse.c.o $(LIBRARY)
	@mkdir -p $(@D)
	$(call say,link $@)
	$(Q)$(LINK)
# Its step_main() comes before the library's. Step 01's kernels are there for every step, to compare with.
define identities_rule
$(B)/tests/identities_$(1): $(B)/tests/identities.c.o $(call step_objects,$(1)) $(filter-out %/main.c.o,$(if $(filter 01,$(1)),,$(call step_objects,01))) $(LIBRARY)
	@mkdir -p $$(@D)
	$$(call say,link $$@)
	$$(Q)$$(LINK)
endef
$(foreach s,$(filter-out 00,$(STEPS)),$(eval $(call identities_rule,$(s))))
# What a kernel may ask CUDA when it plans, and not when it launches: tests/plans.c counts it.
PLAN_QUESTIONS = cudaGetDevice cudaDeviceGetAttribute cudaFuncGetAttributes cudaFuncSetAttribute cudaOccupancyMaxActiveBlocksPerMultiprocessor
define plans_rule
$(B)/tests/plans_$(1): $(B)/tests/plans.c.o $(call step_objects,$(1)) $(LIBRARY)
	@mkdir -p $$(@D)
	$$(call say,link $$@)
	$$(Q)$$(LINK) $(addprefix -Xlinker --wrap=,$(PLAN_QUESTIONS))
endef
$(foreach s,$(STEPS),$(eval $(call plans_rule,$(s))))

# The harness and, without a GPU, the emulator's runtime.
$(LIBRARY): $(HARNESS) $(RUNTIME) $(STAMP)
	$(Q)rm -f $@ && ar rcs $@ $(filter-out $(STAMP),$^)

.PHONY: help all steps bench batch plots test image docs show emulated stale figures train network recurrent fusion nvcc-check compare-counts calibrate cublas cublaslt cuts clean
help:
	@echo "make bench                 every step: verified, and timed on a GPU; tables and CSV in build/results/"
	@echo "make test                  all tests; ends with 'N passed, N failed'; make test-NAME: one, such as test-graph; make golden: write its tables of what a GPU does, tests/golden/ (needs an H100 or H200)"
	@echo
	@echo "make 01                    build a step: $(STEPS)"
	@echo "make run-01                run it; SHAPE='mb1ic16ih28oc16oh28kh3ph1' PASS=fprop|dgrad|wgrad|transposed KERNEL=01a|auto SUITE=nasty BATCH=8 ARGS='--help'"
	@echo "make image                 filter a photograph; IMAGE=photo.png FILTER=sobel|gaussian|sharpen|emboss|FILE SIZE=4000 STEP=02 (default: 04)"
	@echo "make bench SUITE=resnet50  one suite of common/suites/ (or a file of benchdnn lines) through every step; ARGS=--no-cudnn"
	@echo "make batch                 one layer with 1 to 256 images through every step (needs a GPU); SHAPE= PASS="
	@echo "make plots                 draw the results (build/results/ if a GPU was timed there, else docs/results/$(SHOWN)/); GPU= or RESULTS=FOLDER LAYER='mb16ic64...'"
	@echo "make nvcc-check            compile every kernel with nvcc for $(if $(NVCC),sm_80 sm_90a sm_$(NEWEST_ARCH),its architectures) (needs no GPU)"
	@echo "make check-01              run a step under the emulator's checker: bounds, races, uninitialised reads (make check: all steps)"
	@echo "make count-01              count its memory requests, sectors and bank conflicts, line by line; SHAPE= PASS= KERNEL= GPU=$(SHOWN)"
	@echo "make fuzz                  every parser against inputs that nobody wrote, FUZZ_SECONDS=60 each (clang); make fuzz-NAME: one of $(FUZZ_TARGETS)"
	@echo "make coverage              which lines and branches of the steps the tests reach, and what they do not (gcc; emulator)"
	@echo "make exercise-banks        grade an exercise, without a GPU: right, free of races, its counts (docs/exercises.md); FILE=mine.cu SEED=7 ONLY=run|check|count; make exercises"
	@echo "make explain-swizzle       where a copy puts its bytes in shared memory, drawn; also $(addprefix explain-,$(filter-out swizzle,$(EXPLAINED))); without ARGS='...': how to ask"
	@echo "make compare-counts        those counts beside ncu's (needs a GPU)"
	@echo "make profile-02            ncu: a step's kernels beside the step before; PASS= KERNEL= SHAPE= AGAINST=01a (make profile-metrics: what the rows mean)"
	@echo "make sanitize              compute-sanitizer over every kernel; STEP=02 TOOL=racecheck (both need a GPU)"
	@echo "make sass-02               the machine code of its hottest loops, counted by kind (needs no GPU); PASS= KERNEL= ARCH=90a"
	@echo "make calibrate             measure this GPU's limits: bandwidths, rates, latencies; build/results/calibrate.csv (needs a GPU)"
	@echo "make cublas                cuBLAS's matrix product beside step 05's; build/results/cublas.csv; SHAPE= SUITE= (needs a GPU)"
	@echo "make cublaslt              cuBLASLt's beside 07a on 1x1 layers, fp16; build/results/cublaslt.csv; SHAPE= SUITE= BATCH= ARGS='--fuse bias,relu' (needs a GPU)"
	@echo "make cuts                  step 05's model of how products are cut, beside all other cuts; build/results/cuts.csv; SUITE= SHAPE= PASS= (without a GPU: by the committed times)"
	@echo "make stale                 committed results whose kernel's source has changed since they were measured"
	@echo "make docs                  put numbers and tables into the pages again, and into docs/results/$(SHOWN)/tables.md (make figures: draw docs/figures/ again; needs matplotlib)"
	@echo "make show GPU=h100         tables and figures of another GPU, out of docs/results/h100/*.csv and its row in common/harness/gpus.h"
	@echo "make emulated              what the pages show of the emulator, as CSV again: launches, choices, requests, errors"
	@echo "make train                 the three passes at work: a network learns to read digits by step 06's kernels; build/results/train.csv, build/figures/train.svg; ARGS='--help'"
	@echo "make fusion                does it pay to compute layers in one kernel? bytes saved, products made twice, time predicted; on a GPU measured, beside cuDNN"
	@echo "make network               ResNet-50, inference, every layer verified on what the layer before wrote; on a GPU timed beside cuDNN's best plans; ARGS='--help'"
	@echo "make recurrent             a recurrent layer three ways: an operation a launch, a step a launch, one launch; ARGS='--help'"
	@echo "make clean                 remove build/"
	@echo
	@echo "This machine: BACKEND=$(BACKEND) ($(if $(filter cuda,$(BACKEND)),GPU of compute capability $(ARCH),emulator: $(if $(NVCC),nvcc but no GPU,no nvcc)$(if $(OPENMP),,; "$(call quote,$(CC))" has no OpenMP: one thread)))"

all steps: $(addprefix $(B)/,$(STEPS)) $(addprefix $(B)/tools/,$(TOOLS))

bench: $(addprefix $(B)/,$(STEPS))
	@scripts/bench.sh $(B) $(call quote,$(SUITE)) $(ARGUMENTS)

batch: $(if $(filter cuda,$(BACKEND)),$(addprefix $(B)/,$(filter-out 00,$(STEPS))))
	@scripts/batch.sh $(B) $(call quote,$(SHAPE)) $(call quote,$(PASS))

plots: $(if $(RESULTS),,known-gpu)
	@scripts/plots.sh $(call quote,$(or $(RESULTS),$(if $(filter GPU,$(TYPED)),docs/results/$(GPU)))) $(call quote,$(LAYER))

image: $(addprefix $(B)/,$(STEPS)) $(B)/tools/image
	@scripts/image.sh $(B) $(call quote,$(IMAGE)) $(call quote,$(FILTER)) $(call quote,$(SIZE)) $(call quote,$(STEP))

.PHONY: known-gpu
known-gpu:
	@$(if $(and $(filter 1,$(words $(GPU))),$(filter $(GPUS),$(GPU))),,echo 'GPU: expected a folder of docs/results ($(GPUS)), got '$(call quote,"$(GPU)") >&2; exit 2)

# What the pages show: values and tables out of the results of one GPU (docs/numbers/), and the output of the commands they name.
docs: known-gpu
	@GPU=$(call quote,$(GPU)) scripts/fill_docs.pl $(if $(filter $(SHOWN),$(GPU)),README.md $(wildcard docs/*.md docs/results/*.md)) --tables
	@$(if $(filter $(SHOWN),$(GPU)),,echo docs: docs/results/$(call quote,$(GPU))'/tables.md; the pages show the $(SHOWN) (docs/results/shown)')

# All that there is to see of a GPU's results: one command.
show: docs
	@. scripts/find_python.sh; find_python build/venv; \
	if [ "$$python" ]; then $(MAKE) --no-print-directory plots figures GPU=$(call quote,$(GPU)) PYTHON="$$python"; \
	else echo "show: no figures: Python with matplotlib is neither here nor can be installed"; fi

# What the pages show of the emulator, as CSV.
emulated: known-gpu
	@GPU=$(call quote,$(GPU)) scripts/emulated.pl

# Committed results of kernels that have changed since.
stale:
	@scripts/sources.pl stale $(wildcard docs/results/*/*.csv)

# The figures that are drawn, not measured, in docs/figures/; those of measurements in docs/figures/GPU/.
figures: known-gpu
	@. scripts/find_python.sh; find_python build/venv; \
	[ "$$python" ] || { echo "figures: expected Python with matplotlib, which is neither here nor can be installed"; exit 2; }; \
	PYTHONDONTWRITEBYTECODE=1 "$$python" scripts/figures.py docs/results/$(call quote,$(GPU)) docs/figures

train: $(B)/tools/train
	@mkdir -p build/results && $< --csv build/results/train.csv $(ARGUMENTS) && { [ ! -f build/results/train.csv ] || scripts/plots.sh --train || true; }

# Step 07's programs: several layers, and several steps of one.
network recurrent fusion: %: $(B)/tools/%
	@$< $(ARGUMENTS)

# On a machine with a GPU and ncu: the emulator's counts beside the hardware's counters.
compare-counts: $(addprefix build/cuda/,$(filter-out 00,$(STEPS)) tests/count_kernels tests/check_tiled)
	@$(MAKE) --no-print-directory BACKEND=emu $(addprefix build/count/,$(filter-out 00,$(STEPS)) tests/count_kernels tests/check_tiled)
	@scripts/compare_counts.sh $(call quote,$(SHAPE))

# On a machine with a GPU: what it can do, beside common/harness/gpus.h.
ifeq ($(BACKEND),cuda)
calibrate: $(B)/tools/calibrate
	@mkdir -p build/results
	@$< --csv build/results/calibrate.csv $(ARGUMENTS)

cuts: $(B)/tools/cuts
	@mkdir -p build/results
	@$< $(if $(SHAPE),--shape $(call quote,$(SHAPE))) $(if $(SUITE),--suite $(call quote,$(SUITE))) $(if $(PASS),--pass $(call quote,$(PASS))) --csv build/results/cuts.csv $(ARGUMENTS)

# cuBLAS beside step 05, on one layer or a suite.
cublas: $(B)/tools/cublas
	@mkdir -p build/results
	@$< $(if $(SHAPE),--shape $(call quote,$(SHAPE))) $(if $(SUITE),--suite $(call quote,$(SUITE))) --csv build/results/cublas.csv $(ARGUMENTS)
# cuBLASLt beside step 07.
cublaslt: $(B)/tools/cublaslt
	@mkdir -p build/results
	@$< --kernel 07a,cublaslt --pass fprop $(RUN_ARGS) --csv build/results/cublaslt.csv
else
# The model as it is now, by the times of all cuts that are committed; of problems that are named, every cut is verified.
cuts: $(B)/tools/cuts $(if $(SHAPE)$(SUITE),,known-gpu)
	@$< $(if $(SHAPE)$(SUITE),$(if $(SHAPE),--shape $(call quote,$(SHAPE))) $(if $(SUITE),--suite $(call quote,$(SUITE))),--read docs/results/$(call quote,$(GPU))/cuts.csv) $(if $(PASS),--pass $(call quote,$(PASS))) $(ARGUMENTS)

calibrate cublas cublaslt:
	@echo "$@: expected an NVIDIA GPU and nvcc, this machine has $(if $(NVCC),nvcc but no GPU,no nvcc)" >&2; exit 2

# What only a GPU can run, asked for elsewhere.
build/cuda/%:
	@echo $(call quote,$@)': expected an NVIDIA GPU and nvcc, this machine has $(if $(NVCC),nvcc but no GPU (BACKEND=cuda compiles all the same),no nvcc)' >&2; exit 2
endif

run-%:
	@echo $(call quote,$@)': expected one of $(addprefix run-,$(STEPS))' >&2; exit 2
check-% count-%:
	@echo $(call quote,$@)': expected one of $(patsubst %,$(firstword $(subst -, ,$@))-%,$(filter-out 00,$(STEPS)))$(if $(filter cuda,$(BACKEND)),, with BACKEND=emu)' >&2; exit 2

RUN_TESTS = B=$(B) REWRITE=$(REWRITE) CC=$(call quote,$(CC)) CXX=$(call quote,$(CXX)) tests/run.pl
test: all $(TESTS) nvcc-check
	@$(RUN_TESTS) $(TESTS) $(TEST_SCRIPTS)
# One test: make test-steps, make test-graph.
ONE_TEST = $(filter $(wildcard tests/*.sh tests/*.c tests/*.cu) $(patsubst $(B)/%,%,$(STEP_TESTS)),$(foreach e,.sh .c .cu,tests/$*$(e)) tests/$*)
test-%:
	@$(if $(ONE_TEST),,echo 'make test-NAME: expected a file tests/NAME.sh, .c or .cu, found none for '$(call quote,"$*") >&2; exit 2)
	@$(MAKE) --no-print-directory -s $(if $(filter %.sh,$(ONE_TEST)),all $(MODE_PROGRAMS),$(B)/tests/$(call quote,$*))
	@$(RUN_TESTS) $(or $(filter %.sh,$(ONE_TEST)),$(B)/tests/$(call quote,$*))

# Last what says that this make is at work (common/typed.mk).
clean:
	rm -rf build/*
	rm -rf build

-include common/emu/modes.mk
-include common/emu/coverage.mk
-include common/nvcc_check.mk
-include common/exercise.mk common/profile.mk common/tools/explain.mk tests/golden/golden.mk tests/fuzz/fuzz.mk
-include $(shell find build -name '*.d' 2>/dev/null)
