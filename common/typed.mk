# What is typed at make, before anything becomes of it.

define newline


endef
comma := ,
quote = '$(subst ','\'',$(1))'
ifneq ($(findstring $(newline),$(MAKECMDGOALS)),)
$(error make: expected targets of one line each)
endif

# It is text: no $(...) in it is expanded, and where it becomes part of a command it is quoted. (CC, CFLAGS and their like are commands, as everywhere.)
TYPED := $(foreach v,AGAINST ARCH ARGS BACKEND BATCH FILE FILTER FUNCTION GPU IMAGE KERNEL LAYER LIMIT LOOP ONLY PASS PYTHON RANDOM_SHAPES RESULTS SEED SHAPE SIZE STEP SUITE \
  TOOL,$(if $(filter command environment,$(origin $(v))),$(v)))
$(foreach v,$(TYPED),$(if $(findstring $(newline),$(value $(v))),$(error $(v): expected one line))$(eval override $(v) := $$(value $(v)))$(eval export $(v)))
ARGUMENTS = $(foreach word,$(ARGS),$(call quote,$(word)))
ifneq ($(and $(filter command,$(origin B)),$(shell [[ $(call quote,$(value B)) =~ ^[A-Za-z0-9_./-]+$$ ]] || echo no)),)
$(error B: expected a folder for what is built, letters, digits, . _ - and /, got "$(value B)")
endif

# One make at a time builds here; another one waits. Not to say what there is, or what would be done (-n, -q).
ifeq ($(or $(findstring n,$(firstword -$(MAKEFLAGS))),$(findstring q,$(firstword -$(MAKEFLAGS))),$(if $(filter-out help,$(or $(MAKECMDGOALS),help)),,help)),)
ifneq ($(shell scripts/one_make.pl $$PPID),ready)
$(error build: expected a folder that can be written)
endif
endif
