# What this machine has: compilers, a GPU.
ifeq ($(origin CC),default)
CC := gcc
endif
ifeq ($(origin CXX),default)
CXX := $(if $(findstring clang,$(CC)),$(subst clang,clang++,$(CC)),g++)
endif

NVCC_GIVEN := $(filter command environment,$(origin NVCC))
NVCC ?= $(shell for n in nvcc /usr/local/cuda/bin/nvcc; do $$n --version >/dev/null 2>&1 && command -v $$n && break; done)
NVCC := $(NVCC)
ifneq ($(and $(NVCC_GIVEN),$(NVCC),$(shell $(NVCC) --version >/dev/null 2>&1 || echo none)),)
$(error NVCC: expected the CUDA compiler, or nothing, got "$(NVCC)")
endif
GPU_CAPABILITY := $(shell PATH="$$PATH:/usr/lib/wsl/lib" nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | grep -oE '^ *[0-9]+[.][0-9]+ *$$' | head -n 1 | tr -d '. ')
BACKEND ?= $(if $(and $(NVCC),$(GPU_CAPABILITY)),cuda,emu)
override BACKEND := $(strip $(BACKEND))
ifeq ($(and $(filter 1,$(words $(BACKEND))),$(filter cuda emu,$(BACKEND))),)
$(error BACKEND: expected cuda or emu, got "$(BACKEND)")
endif
ifeq ($(BACKEND)$(NVCC),cuda)
$(error BACKEND=cuda: expected nvcc on PATH or in /usr/local/cuda/bin, found none)
endif
OPENMP := $(shell echo 'int main(void){return 0;}' | $(CC) -fopenmp -x c - -o /dev/null 2>/dev/null && echo -fopenmp)
NATIVE := $(shell echo 'int main(void){return 0;}' | $(CC) -march=native -x c - -o /dev/null 2>/dev/null && echo -march=native || echo -mcpu=native)

# Without a GPU: what design targets (8.0, 9.0 with its own instructions) and the newest that this nvcc knows.
NVCC_ARCHS := $(if $(NVCC),$(shell $(NVCC) --list-gpu-code | sed 's/sm_//' | sort -n))
NEWEST_ARCH := $(lastword $(NVCC_ARCHS))
with_suffix = $(if $(shell [ "$(1)" -ge 90 ] 2>/dev/null && echo y),$(1)a,$(1))
ARCH ?= $(if $(GPU_CAPABILITY),$(call with_suffix,$(GPU_CAPABILITY)),80 90a $(NEWEST_ARCH))
ifneq ($(and $(filter ARCH,$(TYPED)),$(or $(shell [[ $(call quote,$(ARCH) ) =~ ^([0-9]+[af]?' '+)+$$ ]] || echo bad),\
  $(if $(NVCC_ARCHS),$(filter-out $(foreach suffix,% %a %f,$(patsubst %,$(suffix),$(NVCC_ARCHS))),$(ARCH))))),)
$(error ARCH: expected compute capabilities$(if $(NVCC), that this nvcc knows), such as 80 or 90a, got "$(ARCH)")
endif
GENCODE = $(foreach a,$(ARCH),-gencode arch=compute_$(a),code=sm_$(a))

# For the shell, before anything is compiled. $(1): CC or CXX.
compiler_is_here = { command -v $(call quote,$(firstword $($(1)))) >/dev/null || { echo $(call quote,$(1): expected $(2)$(comma) got "$($(1))"$(comma) which is not here) >&2; exit 2; }; }
compilers_are_here = $(call compiler_is_here,CC,gcc or clang) && $(call compiler_is_here,CXX,g++ or clang++)
