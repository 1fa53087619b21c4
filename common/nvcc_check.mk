# make nvcc-check: every kernel through nvcc, for GPUs that are not here (the build's own has been): warnings are errors.
#
# Every word, every instruction and every limit of a block is looked at in a quick compilation too (nvcc 13), in a fifth of the time; objects in a folder of
# their own, as those of `make sass-NN ARCH=80` are optimized. What becomes of the code, spills and serialized wgmma, is asked of 90a, with all optimizations,
# by `make nvcc-check` and by every build for a GPU. CI is to end in 15 minutes: `make test` compiles for 90a quickly, too, and leaves the newest architecture
# to `make nvcc-check`. The host's part, and what a file includes, most of the time, once.
CHECK_ARCHS = $(filter-out $(if $(filter cuda,$(BACKEND)),$(if $(filter 1,$(words $(ARCH))),$(ARCH))),80 90a $(if $(filter test,$(MAKECMDGOALS)),,$(NEWEST_ARCH)))
QUICK = $(eval QUICK := $(shell $(NVCC) --help 2>/dev/null | grep -q Ofast-compile && echo --Ofast-compile=max))$(QUICK)
quick = $(if $(filter $(if $(filter test,$(MAKECMDGOALS)),,90a),$(1)),,-quick)
# Of 90a, as those of tests and exercises.
HOPPER_OBJECTS = build/nvcc/90a$(call quick,90a)
# $(1): the architecture. $(2): -quick, or nothing.
define check_rules
build/nvcc/$(1)$(2)/%.cu.o: %.cu $(if $(filter 90a,$(1)),,$(if $(filter 90a,$(CHECK_ARCHS)),$(HOPPER_OBJECTS)/%.cu.o))
	@mkdir -p $$(@D)
	$$(call say,nvcc sm_$(1) $$<)
	$$(Q)scripts/nvcc_strict.sh $(if $(2),--quick) $$(NVCC) -ccbin $$(CXX) $$(NVCC_FLAGS) $(if $(2),$$(QUICK)) -gencode arch=compute_$(1),code=sm_$(1) $(if $(2),,$$(call STRICT_PTXAS,$(1))) $(if $(filter 90a,$(1)),-MMD -MP -c,$(if $(filter 90a,$(CHECK_ARCHS)),,-MMD -MP) -cubin) $$< -o $$@
endef
# A machine with a GPU builds these tests, too.
build/nvcc/80-quick/tests/%.cu.o: tests/%.cu
	@mkdir -p $(@D)
	$(call say,nvcc sm_80 $<)
	$(Q)scripts/nvcc_strict.sh --quick $(NVCC) -ccbin $(CXX) $(NVCC_FLAGS) $(QUICK) -gencode arch=compute_80,code=sm_80 -MMD -MP -cubin $< -o $@
ifneq ($(NVCC),)
$(foreach a,$(CHECK_ARCHS),$(eval $(call check_rules,$(a),$(call quick,$(a)))))
CHECKED := $(wildcard common/conv/*.cu common/harness/*.cu common/tools/*/*.cu [0-9][0-9]_*/*.cu [0-9][0-9]_*/tools/*/*.cu)
# Kernels for 9.0 alone are empty elsewhere: that 80 takes them is enough, and `make test` leaves that to `make nvcc-check`, too.
HOPPER_ONLY := $(shell grep -l 'only compute capability 9.0 has it' [0-9][0-9]_*/*.cu)
NVCC_CHECK := $(foreach a,$(CHECK_ARCHS),$(patsubst %,build/nvcc/$(a)$(call quick,$(a))/%.o,$(if $(filter 90a $(if $(filter test,$(MAKECMDGOALS)),,80),$(a)),$(CHECKED),$(filter-out $(HOPPER_ONLY),$(CHECKED))))) $(if $(filter 90a,$(CHECK_ARCHS)),$(patsubst %,$(HOPPER_OBJECTS)/%.o,$(wildcard tests/hopper_*.cu))) \
  $(if $(filter 80,$(CHECK_ARCHS)),$(patsubst %,build/nvcc/80-quick/%.o,$(filter-out $(NEED_EMULATOR),$(wildcard tests/*.cu))))
endif
nvcc-check: $(NVCC_CHECK)
	@echo "nvcc: $(if $(NVCC),every .cu file compiled for $(addprefix sm_,$(CHECK_ARCHS)),not here: nothing compiled)"
