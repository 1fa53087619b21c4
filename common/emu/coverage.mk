# Which lines and branches of the steps `make test` reaches: the tests' own scripts, run with steps that count. The harness and the emulator do not count.
#
#   make coverage                      build/coverage/: a table, what was never reached, and how that differs from tests/unreached
ifeq ($(BACKEND),emu)

# The tests take a build folder of the name "emu" for an emulated one.
COVERAGE := build/coverage/emu
# Blocks run on several threads: counts are atomic. Nothing is inlined or merged before it counts, so that a branch of the source is a branch here.
COVERAGE_FLAGS := -O1 --coverage -fprofile-update=atomic -fno-early-inlining

$(COVERAGE)/%.cu.o: $(B)/gen/%.cu.cpp $(STAMP) | $(GENERATED_HEADERS)
	@mkdir -p $(@D)
	$(call say,coverage $(patsubst $(B)/gen/%.cpp,%,$<))
	$(Q)rm -f $(@:.o=.gcda) && $(MODES_CXX) $(CXXFLAGS_ALL) -fno-exceptions -D__forceinline__=inline $(COVERAGE_FLAGS) -c $< -o $@
$(COVERAGE)/%.c.o: %.c $(STAMP)
	@mkdir -p $(@D)
	$(call say,coverage $<)
	$(Q)rm -f $(@:.o=.gcda) && $(if $(findstring clang,$(CC)),gcc,$(CC)) $(CFLAGS_ALL) $(COVERAGE_FLAGS) -c $< -o $@

# The hashes of the sources are the same for both.
coverage_objects = $(patsubst $(B)/%,$(COVERAGE)/%,$(filter-out %/kernel_sources.c.o,$(call step_objects,$(1)))) $(filter %/kernel_sources.c.o,$(call step_objects,$(1)))
define coverage_rule
$(COVERAGE)/$(1): $(call coverage_objects,$(1)) $(LIBRARY)
	$$(call say,link $$@)
	$$(Q)$$(LINK) -lgcov
endef
$(foreach s,$(GPU_STEPS),$(eval $(call coverage_rule,$(s))))
# Step 00 is what the others are compared with, on a CPU, and depends on how fast that is: it does not count.
$(COVERAGE)/00: $(call step_objects,00) $(LIBRARY)
	@mkdir -p $(@D)
	$(call say,link $@)
	$(Q)$(LINK)

# tests/cuts.sh reaches rows of the split products' tables that their model never takes.
$(COVERAGE)/tools/cuts: $(patsubst %,$(B)/%.o,05_im2col_gemm/tools/cuts.c $(wildcard 05_im2col_gemm/tools/cuts/*.c 05_im2col_gemm/tools/cuts/*.cu)) $(filter-out %/main.c.o,$(call coverage_objects,05)) $(LIBRARY)
	@mkdir -p $(@D)
	$(call say,link $@)
	$(Q)$(LINK) -lgcov

.PHONY: coverage
coverage: $(addprefix $(COVERAGE)/,$(STEPS) tools/cuts) $(CHECK)/tests/check_tiled
	@scripts/coverage.pl $(COVERAGE) $(ARGUMENTS)

else
.PHONY: coverage
coverage:
	@$(MAKE) --no-print-directory BACKEND=emu $@
endif
