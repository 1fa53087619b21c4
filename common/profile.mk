# What NVIDIA's own tools say about a step.
#
#   make profile-02 [PASS= KERNEL= SHAPE= AGAINST=01a]   ncu: the GPU's counters, beside the step before
#   make profile-metrics                                 what those counters mean
#   make sanitize [STEP=02 TOOL=racecheck SUITE= SHAPE= PASS= KERNEL=]   compute-sanitizer over every kernel
#   make sass-02 [KERNEL=02a PASS= ARCH=90a LOOP=2 FUNCTION=TEXT]   the machine code of the hottest loop (needs no GPU)
PROFILE_STEPS := $(filter-out 00,$(STEPS))
on_gpu = $(if $(filter cuda,$(BACKEND)),$(1))

# before_03 is 02.
before :=
$(foreach s,$(PROFILE_STEPS),$(eval before_$(s) := $(before))$(eval before := $(s)))
against = $(or $(AGAINST),$(before_$(1)))
against_step = $(foreach s,$(PROFILE_STEPS),$(if $(filter $(s)%,$(call against,$(1))),$(s)))

SASS_ARCH := $(if $(filter 1,$(words $(ARCH))),$(ARCH),90a)
ifneq ($(NVCC),)
$(foreach a,$(filter-out $(filter 90a,$(CHECK_ARCHS)),$(SASS_ARCH)),$(eval $(call check_rules,$(a))))
sass_objects = $(patsubst %,build/nvcc/$(SASS_ARCH)/%.o,$(sort $(wildcard $(call folder,$(1))/$(or $(filter-out $(KERNEL),$(KERNEL:$(1)%=%)),[a-z])_*.cu)))
endif

define profile_rules
.PHONY: profile-$(1) sass-$(1)
profile-$(1): $(call on_gpu,$(addprefix $(B)/,$(sort $(1) $(call against_step,$(1)))))
	@NVCC=$$(call quote,$$(NVCC)) scripts/profile.sh $(B) $(1) $$(call quote,$$(call against,$(1))) $$(call quote,$$(PASS)) $$(call quote,$$(KERNEL)) $$(call quote,$$(SHAPE))
sass-$(1): $(call sass_objects,$(1))
	@NVCC=$$(call quote,$$(NVCC)) scripts/sass.sh $(1) $$(call quote,$$(PASS)) $$(call quote,$$(KERNEL)) $$(call quote,$$(LOOP)) $$(call quote,$$(FUNCTION)) $$(patsubst %,build/nvcc/$(SASS_ARCH)/%.o,$$(sort $$(wildcard $$(call folder,$(1))/*.cu)))
endef
$(foreach s,$(PROFILE_STEPS),$(eval $(call profile_rules,$(s))))

.PHONY: profile-00 sass-00 profile-metrics sanitize
profile-00 sass-00:
	@echo "$@: expected a step with GPU kernels ($(PROFILE_STEPS)); step 00 runs on the CPU" >&2; exit 2
profile-metrics:
	@scripts/profile_csv.pl --metrics

SANITIZE_STEPS = $(strip $(or $(STEP),$(strip $(foreach s,$(PROFILE_STEPS),$(if $(filter $(s)%,$(KERNEL)),$(s)))),$(PROFILE_STEPS)))
sanitize: $(call on_gpu,$(addprefix $(B)/,$(filter $(PROFILE_STEPS),$(SANITIZE_STEPS))))
	@NVCC=$(call quote,$(NVCC)) scripts/sanitize.sh $(B) $(call quote,$(SANITIZE_STEPS)) $(call quote,$(TOOL)) $(RUN_ARGS)
