# Golden tables: what a GPU does, written once on one and committed; tests/golden.sh compares the emulator, or the GPU that is here, with them.
#
#   make golden      measures all tables anew: tests/golden/*.txt (needs an H100 or H200)
GOLDEN_TABLES := fragments products descriptors swizzles boxes im2col mbarriers
GOLDEN := tests/golden_tables
golden_objects := $(patsubst %,$(B)/%.o,$(wildcard tests/golden/*.c tests/golden/*.cu))

$(B)/$(GOLDEN): $(golden_objects) $(LIBRARY)
	$(call say,link $@)
	$(Q)$(LINK)
test: $(B)/$(GOLDEN)
.PHONY: golden
ifeq ($(BACKEND),cuda)
# A table takes the place of the old one when it is whole; cases that fail are rows, and an error.
golden: $(B)/$(GOLDEN)
	@failed=0; for t in $(GOLDEN_TABLES); do $< $$t >$(B)/golden.txt; s=$$?; [ $$s -gt 1 ] && exit $$s; [ $$s -eq 0 ] || failed=1; cp $(B)/golden.txt tests/golden/$$t.txt; done; \
	wc -lc tests/golden/*.txt; exit $$failed
else
$(CHECK)/$(GOLDEN): $(patsubst $(B)/%.cu.o,$(CHECK)/%.cu.o,$(golden_objects)) $(LIBRARY)
	@mkdir -p $(@D)
	$(call say,link $@)
	$(Q)$(LINK)
MODE_PROGRAMS += $(B)/$(GOLDEN)
golden:
	@echo "golden: expected a GPU of compute capability 9.0 and nvcc, this machine has $(if $(NVCC),nvcc but no GPU,no nvcc)" >&2; exit 2
endif
