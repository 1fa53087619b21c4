# The emulator's other builds. Everything but the kernels is the run build's: only .cu files are compiled again, instrumented.
#
#   make check                         every step through the checker (build/check/)
#   make check-01 [SHAPE= PASS= ...]   one step
#   make count-01 [SHAPE= PASS= KERNEL= GPU=]   what a step asks of memory, line by line (build/count/)
ifeq ($(BACKEND),emu)

# build/check, build/count; with another B, such as a cross build's, folders beside it.
CHECK := build/check$(if $(filter-out build/emu,$(B)),-$(notdir $(B)))
COUNT := build/count$(if $(filter-out build/emu,$(B)),-$(notdir $(B)))
check_folder := $(CHECK)
count_folder := $(COUNT)

# The sanitizers' hooks are gcc's: clang drops and merges accesses. None of the sanitizers' own runtimes is linked.
MODES_CXX := $(if $(findstring clang,$(CXX)),g++,$(CXX))
CHECK_FLAGS := -O1 -fsanitize=thread --param tsan-distinguish-volatile=1 --param tsan-instrument-func-entry-exit=0 -Wno-tsan -gno-statement-frontiers

# Every kernel's file begins with <cuda_runtime.h>, as it does with nvcc. It takes the compiler longer to read than most kernels: each build reads it once, into
# a precompiled header of the same flags. (With others, as where a test compiles by itself, g++ passes the .gch over and reads the .h beside it.)
already_read = -include $(1)/every_kernel.h -Wno-sign-compare
$(B)/every_kernel.h.gch: private READ = $(CXX) $(CXXFLAGS_ALL)
$(CHECK)/every_kernel.h.gch: private READ = $(MODES_CXX) $(CXXFLAGS_ALL) $(CHECK_FLAGS) -fsanitize=bounds
$(COUNT)/every_kernel.h.gch: private READ = $(MODES_CXX) $(CXXFLAGS_ALL) $(COUNT_FLAGS)
$(B)/every_kernel.h.gch $(CHECK)/every_kernel.h.gch $(COUNT)/every_kernel.h.gch: $(STAMP)
	@mkdir -p $(@D); echo '#include <cuda_runtime.h>' >$(@:.gch=)
	$(Q)$(READ) -x c++-header $(@:.gch=) -o $@

$(CHECK)/%.cu.o: $(B)/gen/%.cu.cpp $(CHECK)/every_kernel.h.gch $(STAMP) | $(GENERATED_HEADERS)
	@mkdir -p $(@D)
	$(call say,check $(patsubst $(B)/gen/%.cpp,%,$<))
	$(Q)$(MODES_CXX) $(call already_read,$(CHECK)) $(CXXFLAGS_ALL) $(CHECK_FLAGS) -fsanitize=bounds -c $< -o $@

# Coverage hooks at every basic block, for lockstep; without the passes that would move blocks to where lanes cannot meet again.
COUNT_FLAGS := $(CHECK_FLAGS) -fsanitize-coverage=trace-pc -fno-reorder-blocks -fno-tree-dominator-opts -fno-thread-jumps

$(COUNT)/%.cu.o: $(B)/gen/%.cu.cpp $(COUNT)/every_kernel.h.gch $(STAMP) | $(GENERATED_HEADERS)
	@mkdir -p $(@D)
	$(call say,count $(patsubst $(B)/gen/%.cpp,%,$<))
	$(Q)$(MODES_CXX) $(call already_read,$(COUNT)) $(CXXFLAGS_ALL) $(COUNT_FLAGS) -c $< -o $@

# $(1): check or count. A step is its .c files from the run build and its .cu files from this one.
mode_objects = $(patsubst $($(1)_folder)/%.c.o,$(B)/%.c.o,$(patsubst $(B)/%,$($(1)_folder)/%,$(call step_objects,$(2))))
define mode_rules
$($(1)_folder)/$(2): $(call mode_objects,$(1),$(2)) $(LIBRARY)
	$$(call say,link $$@)
	$$(Q)$$(LINK)
.PHONY: $(1)-$(2)
$(1)-$(2): $($(1)_folder)/$(2)
endef
GPU_STEPS := $(filter-out 00,$(STEPS))
$(foreach m,check count,$(foreach s,$(GPU_STEPS),$(eval $(call mode_rules,$(m),$(s)))))
$(foreach s,$(GPU_STEPS),$(eval check-$(s): ; @$(CHECK)/$(s) --no-time $$(RUN_ARGS)))
# One launch of each kernel is enough to count.
$(foreach s,$(GPU_STEPS),$(eval count-$(s): ; @GPU=$$(call quote,$$(GPU)) $(COUNT)/$(s) --exact $$(RUN_ARGS)))

$(CHECK)/tests/%: $(CHECK)/tests/%.cu.o $(LIBRARY)
	@mkdir -p $(@D)
	$(call say,link $@)
	$(Q)$(LINK)

# A test in C with a step's kernels.
$(CHECK)/tests/early $(CHECK)/tests/early_chains: $(CHECK)/tests/%: $(B)/tests/%.c.o $(filter-out %/main.c.o,$(foreach s,06 07,$(call mode_objects,check,$(s)))) $(LIBRARY)
	@mkdir -p $(@D)
	$(call say,link $@)
	$(Q)$(LINK)

# Several operations one after the other, with the kernels of all steps.
$(CHECK)/tools/graph: $(B)/common/tools/graph.c.o $(B)/all_steps.c.o $(filter-out %/main.c.o,$(foreach s,$(GPU_STEPS),$(call mode_objects,check,$(s)))) $(CHECK)/common/harness/unfused.cu.o $(LIBRARY)
	@mkdir -p $(@D)
	$(call say,link $@)
	$(Q)$(LINK)

$(CHECK)/tools/recurrent: $(B)/07_fusion/tools/recurrent.c.o $(B)/all_steps.c.o $(filter-out %/main.c.o,$(foreach s,$(GPU_STEPS),$(call mode_objects,check,$(s)))) $(CHECK)/common/harness/unfused.cu.o $(LIBRARY)
	@mkdir -p $(@D)
	$(call say,link $@)
	$(Q)$(LINK)

# How the tests compile a kernel for the checker: a command line that wants "in.cu.cpp -o out.o"; and link it, with the harness's compiler.
QUICK_LINK = $(CXX) $(OPENMP) $(GOLD) $(LDFLAGS)
.PHONY: check-compiler check-linker
check-linker:
	@echo $(call quote,$(QUICK_LINK))
check-compiler:
	@echo $(call quote,$(MODES_CXX) $(call already_read,$(CHECK)) $(CXXFLAGS_ALL) $(CHECK_FLAGS) -fsanitize=bounds -MF /dev/null -c)

$(COUNT)/tests/%: $(COUNT)/tests/%.cu.o $(LIBRARY)
	@mkdir -p $(@D)
	$(call say,link $@)
	$(Q)$(LINK)

MODE_PROGRAMS := $(addprefix $(CHECK)/,$(GPU_STEPS) tests/check_tiled tests/lucky tests/check_late tests/check_cases tests/check_engines tests/check_order tests/check_overlap tests/early tests/early_chains tests/emu_wmma tests/emu_stmatrix tests/hopper_window tests/hopper_blocks tests/emu_ldmatrix tests/hopper_cluster tests/hopper_first_layer tests/hopper_wgrad tests/hopper_neighbours) $(CHECK)/tools/graph $(CHECK)/tools/recurrent $(addprefix $(COUNT)/,$(GPU_STEPS) tests/count_kernels tests/check_engines tests/hopper_window tests/emu_ldmatrix)
.PHONY: check
check: $(MODE_PROGRAMS)
	@B=$(B) REWRITE=$(REWRITE) CXX=$(call quote,$(MODES_CXX)) tests/run.pl tests/check_steps.sh
test: $(MODE_PROGRAMS)
bench: $(addprefix $(COUNT)/,$(GPU_STEPS))
bench: export COUNT := $(COUNT)

else # kernels run on a GPU here: the emulator is a build of its own

.PHONY: check $(foreach s,$(filter-out 00,$(STEPS)),check-$(s) count-$(s))
check $(foreach s,$(filter-out 00,$(STEPS)),check-$(s) count-$(s)):
	@$(MAKE) --no-print-directory BACKEND=emu $@

endif
