# What a learner asks of Hopper's copies and matrix products, drawn in the terminal, on any machine.
#
#   make explain-swizzle [ARGS='--swizzle 128 --chunk 3']                   common/tools/explain_swizzle.c; without ARGS: how to ask
#   make explain-im2col [ARGS='--shape mb2ic64ih6oc64oh6kh3ph1 --tap 0,2']   common/tools/explain_im2col.c
EXPLAINED := $(patsubst common/tools/explain_%.c,%,$(wildcard common/tools/explain_*.c))

# They ask the emulator's own functions. Those need nothing of its runtime, so BACKEND=cuda, where the library has no emulator, links them as they are.
ifeq ($(BACKEND),cuda)
$(patsubst %,$(B)/tools/explain_%,$(EXPLAINED)): $(patsubst %,$(B)/%.o,$(wildcard $(foreach f,allocate box tensor_map wgmma_product wgmma_multiply,common/emu/run/$(f).c)))
endif

.PHONY: $(addprefix explain-,$(EXPLAINED))
$(addprefix explain-,$(EXPLAINED)): explain-%: $(B)/tools/explain_%
	@$< $(ARGUMENTS)
explain-%:
	@echo $(call quote,$@)': expected one of $(addprefix explain-,$(EXPLAINED))' >&2; exit 2
