# What reads input, against inputs that nobody wrote.
#
#   make fuzz [FUZZ_SECONDS=60] [FUZZ_CC=clang]     every target, a minute each: tests/fuzz/NAME.c, by libFuzzer
#   make fuzz-rewriter                              one
# What was found is in tests/fuzz/found/; tests/fuzz.sh runs it again, without clang.
FUZZ_TARGETS := shape suite npy pictures filters winners options rewriter
FUZZ_SECONDS ?= 60
FUZZ_CC ?= clang
FUZZED := $(foreach f,conv/problem conv/tensor conv/epilogue harness/suite harness/options_check cudnn/cudnn_winners cudnn/cudnn_graph,common/$(f).c) $(wildcard common/files/*.c) tests/fuzz/fuzz.c
FUZZ_FLAGS := -std=c17 -D_GNU_SOURCE -O1 -g -fno-omit-frame-pointer $(WARNINGS) -Wno-unknown-pragmas -I. -Icommon/emu/include -MMD -MP

# $(1): the folder, replay or fuzz; $(2): what has main().
define fuzz_rules
build/$(1)/%.o: %.c $$(STAMP)$(if $(filter fuzz,$(1)), | fuzz-compiler)
	@mkdir -p $$(@D)
	$$(Q)$$($(1)_cc) $$(FUZZ_FLAGS) -c $$< -o $$@
build/$(1)/libfuzzed.a: $(patsubst %.c,build/$(1)/%.o,$(FUZZED))
	$$(Q)rm -f $$@ && ar rcs $$@ $$^
$(addprefix build/$(1)/,$(FUZZ_TARGETS)): build/$(1)/%: build/$(1)/tests/fuzz/%.o $(2) build/$(1)/libfuzzed.a
	$$(call say,link $$@)
	$$(Q)$$($(1)_cc) -o $$@ $$^ -lm
endef
SANITIZERS = $(eval SANITIZERS := $(shell echo 'int main(void){return 0;}' | $(CC) -fsanitize=address,undefined -x c - -o /dev/null 2>/dev/null && echo -fsanitize=address,undefined -fno-sanitize-recover=undefined))$(SANITIZERS)
replay_cc = $(CC) $(SANITIZERS)
fuzz_cc = $(FUZZ_CC) -fsanitize=$(if $(filter %.o,$@),fuzzer-no-link,fuzzer),address,undefined -fno-sanitize-recover=undefined
$(eval $(call fuzz_rules,replay,build/replay/tests/fuzz/replay.o))
$(eval $(call fuzz_rules,fuzz,))

.PHONY: fuzz fuzz-compiler $(addprefix fuzz-,$(FUZZ_TARGETS))
fuzz: $(addprefix fuzz-,$(FUZZ_TARGETS))
$(addprefix fuzz-,$(FUZZ_TARGETS)): fuzz-%: build/fuzz/%
	@nice tests/fuzz/run.sh build/fuzz/$* $(call quote,$(FUZZ_SECONDS))
fuzz-compiler:
	@mkdir -p build/fuzz; echo 'int LLVMFuzzerTestOneInput(void){return 0;}' | $(FUZZ_CC) -fsanitize=fuzzer,address,undefined -x c - -o build/fuzz/compiler 2>/dev/null || \
	  { echo 'make fuzz: expected clang with libFuzzer and the sanitizers (Debian: apt-get install clang libclang-rt-14-dev), FUZZ_CC="$(FUZZ_CC)" has none' >&2; exit 2; }

REPLAYS := $(addprefix build/replay/,$(FUZZ_TARGETS))
MODE_PROGRAMS += $(REPLAYS)
test: $(REPLAYS)
