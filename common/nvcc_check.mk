# make nvcc-check: every kernel through nvcc, for GPUs that are not here (the build's own has been): warnings are errors.
#
# Every word, every instruction and every limit of a block is looked at in a quick compilation too (nvcc 13), in a fifth of the time, without lines for a profiler; objects in a folder of
# their own, as those of `make sass-NN ARCH=80` are optimized. What becomes of the code, spills and serialized wgmma, is asked of 90a, with all optimizations,
# by `make nvcc-check` and by every build for a GPU. CI is to end in 15 minutes: `make test` compiles every file once, quickly, for the first architecture that it is
# for, and makes no object for the host: nvcc reads and checks the host's part all the same, and g++ has compiled it for the emulator.
ONCE = $(filter test,$(MAKECMDGOALS))
CHECK_ARCHS = $(filter-out $(if $(filter cuda,$(BACKEND)),$(if $(filter 1,$(words $(ARCH))),$(ARCH))),80 90a $(if $(ONCE),,$(NEWEST_ARCH)))
QUICK = $(eval QUICK := $(shell $(NVCC) --help 2>/dev/null | grep -q Ofast-compile && echo --Ofast-compile=max))$(QUICK)
quick = $(if $(filter $(if $(ONCE),,90a),$(1)),,-quick)
# Of 90a, as those of tests and exercises.
HOPPER_OBJECTS = build/nvcc/90a$(call quick,90a)
# $(1): the architecture. $(2): -quick, or nothing.
# After 90a the host's part is known.
behind_90a = $(if $(filter 90a,$(1)),,$(if $(ONCE),,$(filter 90a,$(CHECK_ARCHS))))
wanted = $(if $(ONCE),-MMD -MP -cubin,$(if $(call behind_90a,$(1)),-cubin,-MMD -MP -c))
define check_rules
build/nvcc/$(1)$(2)/%.cu.o: %.cu $(if $(call behind_90a,$(1)),$(HOPPER_OBJECTS)/%.cu.o)
	@mkdir -p $$(@D)
	$$(call say,nvcc sm_$(1) $$<)
	$$(Q)scripts/nvcc_strict.sh $(if $(2),--quick) $$(NVCC) -ccbin $$(CXX) $(if $(2),$$(filter-out -lineinfo,$$(NVCC_FLAGS)) $$(QUICK),$$(NVCC_FLAGS)) -gencode arch=compute_$(1),code=sm_$(1) $(if $(2),,$$(call STRICT_PTXAS,$(1))) $(call wanted,$(1)) $$< -o $$@
endef
# A machine with a GPU builds these tests, too.
build/nvcc/80-quick/tests/%.cu.o: tests/%.cu
	@mkdir -p $(@D)
	$(call say,nvcc sm_80 $<)
	$(Q)scripts/nvcc_strict.sh --quick $(NVCC) -ccbin $(CXX) $(filter-out -lineinfo,$(NVCC_FLAGS)) $(QUICK) -gencode arch=compute_80,code=sm_80 -MMD -MP -cubin $< -o $@
ifneq ($(NVCC),)
$(foreach a,$(CHECK_ARCHS),$(eval $(call check_rules,$(a),$(call quick,$(a)))))
CHECKED := $(wildcard common/conv/*.cu common/harness/*.cu common/tools/*/*.cu [0-9][0-9]_*/*.cu [0-9][0-9]_*/tools/*/*.cu)
# Kernels for 9.0 alone are empty elsewhere; `make test` leaves it to `make nvcc-check` whether others take them.
HOPPER_ONLY := $(shell grep -l 'only compute capability 9.0 ' [0-9][0-9]_*/*.cu)
CHECKED_80 := $(if $(ONCE),$(filter-out $(HOPPER_ONLY),$(CHECKED)),$(CHECKED))
CHECKED_90a := $(if $(and $(ONCE),$(filter 80,$(CHECK_ARCHS))),$(HOPPER_ONLY),$(CHECKED)) $(wildcard tests/hopper_*.cu)
NVCC_CHECK := $(foreach a,$(CHECK_ARCHS),$(patsubst %,build/nvcc/$(a)$(call quick,$(a))/%.o,$(or $(CHECKED_$(a)),$(filter-out $(HOPPER_ONLY),$(CHECKED))))) \
  $(if $(filter 80,$(CHECK_ARCHS)),$(patsubst %,build/nvcc/80-quick/%.o,$(filter-out $(NEED_EMULATOR),$(wildcard tests/*.cu))))
endif
nvcc-check: $(NVCC_CHECK)
	@echo "nvcc: $(if $(NVCC),every .cu file compiled for $(addprefix sm_,$(CHECK_ARCHS))$(if $(ONCE), (each for the first that it is for)),not here: nothing compiled)"
