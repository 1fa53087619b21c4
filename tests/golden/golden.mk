# Golden tables: what a GPU does, written once on one and committed; tests/golden.sh compares the emulator, or the GPU that is here, with them.
#
#   make golden      measures all tables anew: tests/golden/*.txt (needs an H100 or H200)
GOLDEN := tests/golden_tables
golden_objects := $(patsubst %,$(B)/%.o,$(wildcard tests/golden/*.c tests/golden/*.cu))

$(B)/$(GOLDEN): $(golden_objects) $(LIBRARY)
	$(call say,link $@)
	$(Q)$(LINK)
MODE_PROGRAMS += $(B)/$(GOLDEN)
test: $(B)/$(GOLDEN)

.PHONY: golden
ifeq ($(BACKEND)$(if $(filter 9%,$(GPU_CAPABILITY)),-hopper),cuda-hopper)
# A table takes the place of the old one when it is whole. Cases that fail are rows, and an error at the end.
golden: $(B)/$(GOLDEN)
	@failed=0; for table in $$($< list); do \
	  $< $$table >$(B)/golden.txt; status=$$?; \
	  [ $$status -le 1 ] || exit $$status; \
	  [ $$status -eq 0 ] || failed=1; \
	  cp $(B)/golden.txt tests/golden/$$table.txt; \
	done; wc -lc tests/golden/*.txt; exit $$failed
else
golden:
	@echo "golden: expected a GPU of compute capability 9.0 and BACKEND=cuda, this machine has $(if $(GPU_CAPABILITY),one of $(GPU_CAPABILITY),none), BACKEND=$(BACKEND)" >&2; exit 2
endif

ifeq ($(BACKEND),emu)
$(CHECK)/$(GOLDEN): $(patsubst $(B)/%.cu.o,$(CHECK)/%.cu.o,$(golden_objects)) $(LIBRARY)
	@mkdir -p $(@D)
	$(call say,link $@)
	$(Q)$(LINK)
MODE_PROGRAMS += $(CHECK)/$(GOLDEN)
test: $(CHECK)/$(GOLDEN)
endif

# They compile for a GPU too.
ifneq ($(filter 90a,$(if $(NVCC),$(CHECK_ARCHS))),)
nvcc-check: $(patsubst %,$(HOPPER_OBJECTS)/%.o,$(wildcard tests/golden/*.cu))
endif
