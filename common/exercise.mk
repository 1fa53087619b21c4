# Exercises: the reader's file through the emulator's three builds, and a verdict. docs/exercises.md tells how.
#
#   make exercise-banks [FILE=mine.cu] [SEED=4711] [LIMIT=60] [ONLY=run|check|count]     the exercises are [0-9][0-9]_*/exercises/*.cu
#   make exercises                                              all of them, each in its own file
EXERCISE_FILES := $(wildcard [0-9][0-9]_*/exercises/*.cu)
EXERCISES := $(subst _,-,$(basename $(notdir $(EXERCISE_FILES))))
.PHONY: exercises exercise-programs exercise-tools

ifeq ($(BACKEND),emu)

# A warning in a reader's file is no error. A volatile access is one like any other: blocks that add up by such ones race.
exercise_compile = $(MODES_CXX) $(call already_read,$(1)) $(CXXFLAGS_ALL) -Wno-error -Wno-strict-aliasing $(2) -MF /dev/null -c
EXERCISE_ENV = B=$(call quote,$(B)) REWRITE=$(call quote,$(REWRITE)) COUNT_STEPS=$(call quote,$(COUNT)) \
  COMPILE_RUN=$(call quote,$(patsubst $(MODES_CXX),$(CXX),$(call exercise_compile,$(B)))) \
  COMPILE_CHECK=$(call quote,$(call exercise_compile,$(CHECK),$(CHECK_FLAGS) --param tsan-distinguish-volatile=0 -fsanitize=bounds)) \
  COMPILE_COUNT=$(call quote,$(call exercise_compile,$(COUNT),$(COUNT_FLAGS))) \
  COMPILE_NVCC=$(call quote,$(if $(NVCC),$(NVCC) -ccbin $(CXX) -std=c++20 -I. -gencode arch=compute_90a$(comma)code=sm_90a -cubin)) \
  LINK_PROGRAM=$(call quote,$(QUICK_LINK))

exercise-programs: $(REWRITE) $(LIBRARY) $(GENERATED_HEADERS) $(B)/every_kernel.h.gch $(CHECK)/every_kernel.h.gch $(patsubst %,$(B)/%.o,$(wildcard common/exercise/*.c)) $(COUNT)/01
$(addprefix exercise-,$(EXERCISES)): exercise-%: exercise-programs
	@$(EXERCISE_ENV) scripts/exercise.pl $(call quote,$*) $(call quote,$(FILE))
exercise-%: exercise-programs # one that does not exist: the grader says so
	@$(EXERCISE_ENV) scripts/exercise.pl $(call quote,$*) $(call quote,$(FILE))
exercises: exercise-programs
	@failed=0; for e in $(EXERCISES); do $(EXERCISE_ENV) scripts/exercise.pl $$e || failed=1; echo; done; exit $$failed

# For tests/exercises.sh: a line for the shell that sets what the grader needs.
exercise-tools: exercise-programs
	@printf '%s\n' $(call quote,export $(EXERCISE_ENV))
test: exercise-programs

else # kernels run on a GPU here: exercises are graded by the emulator all the same

exercises:
	@$(MAKE) --no-print-directory BACKEND=emu $@
exercise-%:
	@$(MAKE) --no-print-directory BACKEND=emu $(call quote,$@)

endif

# The sample solutions compile for a GPU too.
ifneq ($(NVCC),)
nvcc-check: $(patsubst %,$(HOPPER_OBJECTS)/%.o,$(wildcard tests/exercises/*.cu))
endif
