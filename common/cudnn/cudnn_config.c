/* Engine configurations and their names: what heuristics offer, what an engine can be asked, tags. */
#include "common/cudnn/cudnn_api.h"

#ifdef HAVE_CUDNN
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- tags */

bool config_equal(const cudnn_config *a, const cudnn_config *b) {
  if (a->layout != b->layout || a->bias != b->bias || a->engine != b->engine || a->knobs != b->knobs) return false;
  for (int i = 0; i < a->knobs; i++)
    if (a->knob[i].type != b->knob[i].type || a->knob[i].value != b->knob[i].value) return false;
  return true;
}

/* Knobs are kept in ascending order of type, so that one configuration has one tag. */
void config_set(cudnn_config *c, int type, int64_t value) {
  int at = 0;
  while (at < c->knobs && c->knob[at].type < type) at++;
  if (at == c->knobs || c->knob[at].type != type) {
    if (c->knobs == KNOBS) return;
    memmove(&c->knob[at + 1], &c->knob[at], (size_t)(c->knobs - at) * sizeof *c->knob);
    c->knobs++;
    c->knob[at].type = type;
  }
  c->knob[at].value = value;
}

void config_print(const cudnn_config *c, conv_layout home, char tag[CUDNN_TAG]) {
  size_t used = (size_t)snprintf(tag, CUDNN_TAG, "eng%d", c->engine);
  for (int i = 0; i < c->knobs && used < CUDNN_TAG; i++)
    used += (size_t)snprintf(tag + used, CUDNN_TAG - used, "_k%d=%lld", c->knob[i].type, (long long)c->knob[i].value);
  if (c->layout != home && used < CUDNN_TAG) used += (size_t)snprintf(tag + used, CUDNN_TAG - used, "@%s", layout_name(c->layout));
  if (c->bias == DTYPE_FP16 && used < CUDNN_TAG) snprintf(tag + used, CUDNN_TAG - used, "@fp16");
}

int config_parse(cudnn_config *c, conv_layout home, const char *tag) {
  *c = (cudnn_config){.layout = home};
  int engine, used = 0;
  if (sscanf(tag, "eng%d%n", &engine, &used) != 1 || engine < 0) return -1;
  c->engine = engine;
  for (tag += used; *tag == '_'; tag += used) {
    int type;
    long long value;
    if (sscanf(tag, "_k%d=%lld%n", &type, &value, &used) != 2 || type < 0) return -1;
    config_set(c, type, value);
  }
  for (int layout = 0; layout < LAYOUT_COUNT; layout++) {
    const char *name = layout_name((conv_layout)layout);
    if (*tag != '@' || strncmp(tag + 1, name, strlen(name)) != 0) continue;
    c->layout = (conv_layout)layout;
    tag += 1 + strlen(name);
    break;
  }
  if (strcmp(tag, "@fp16") == 0) c->bias = DTYPE_FP16;
  return *tag == 0 || c->bias == DTYPE_FP16 ? 0 : -1;
}

/* ---------------------------------------------------------------- notes */

void notes_print(unsigned notes, char text[CUDNN_NOTES]) {
  static const struct {
    int bit;
    const char *words;
  } names[] = {
      {CUDNN_NUMERICAL_NOTE_TENSOR_CORE, "tensor core"},
      {CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS, "inputs rounded down"},
      {CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION, "reduced-precision sums"},
      {CUDNN_NUMERICAL_NOTE_FFT, "FFT"},
      {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, "nondeterministic"},
      {CUDNN_NUMERICAL_NOTE_WINOGRAD, "Winograd"},
      {CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4, "tile 4x4"},
      {CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6, "tile 6x6"},
      {CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13, "tile 13x13"},
  };
  text[0] = 0;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (notes >> names[i].bit & 1) {
      if (text[0]) strncat(text, ", ", CUDNN_NOTES - 1 - strlen(text));
      strncat(text, names[i].words, CUDNN_NOTES - 1 - strlen(text));
    }
}

/* There is no note for TF32: an fp32 engine on tensor cores rounds its inputs to it. */
bool notes_same_math(unsigned notes, conv_dtype dtype) {
  const unsigned other = dtype == DTYPE_FP32 ? 1u << CUDNN_NUMERICAL_NOTE_TENSOR_CORE | 1u << CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS
                                             : 1u << CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION;
  return (notes & other) == 0;
}

/* ---------------------------------------------------------------- asking cuDNN */

/* cuDNN fills descriptors that the caller has made. Returns how many. */
static int get_descriptors(cudnn_pool *pool, cudnnBackendDescriptor_t from, cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type, int room,
                           cudnnBackendDescriptor_t *list) {
  for (int i = 0; i < room; i++) list[i] = pool_create(pool, type);
  return pool_get(pool, from, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, room, list);
}

static int64_t get_integer(cudnn_pool *pool, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name) {
  int64_t value = 0;
  pool_get(pool, d, name, CUDNN_TYPE_INT64, 1, &value);
  return value;
}

static void use_device(cudnn_pool *pool, cudnnBackendDescriptor_t d, int attribute, const cudnn_graph *g) {
  if (g->device) pool_set_descriptor(pool, d, (cudnnBackendAttributeName_t)attribute, g->device);
}

/* Attributes that take a device's properties instead of a device; by number, as cuDNN's headers name them from 9.8 on only. */
enum { ATTRIBUTE_HEURISTIC_DEVICE = 204, ATTRIBUTE_PLAN_DEVICE = 407, ATTRIBUTE_ENGINE_DEVICE = 1307 };

static cudnn_config read_config(cudnnBackendDescriptor_t from, const cudnn_graph *g) {
  cudnn_config c = {.layout = g->layout, .bias = g->bias, .engine = -1};
  cudnn_pool pool = {0};
  cudnnBackendDescriptor_t engine, choice[KNOBS];
  if (get_descriptors(&pool, from, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1, &engine) == 1)
    c.engine = (int)get_integer(&pool, engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
  const int choices = get_descriptors(&pool, from, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, KNOBS, choice);
  for (int i = 0; i < choices; i++) {
    cudnnBackendKnobType_t type;
    if (pool_get(&pool, choice[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type) == 1)
      config_set(&c, (int)type, get_integer(&pool, choice[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE));
  }
  pool_free(&pool);
  return c;
}

int config_list(const cudnn_graph *g, cudnnBackendHeurMode_t mode, cudnn_config *list, int room) {
  cudnn_pool pool = {0};
  cudnnBackendDescriptor_t heuristic = pool_create(&pool, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  pool_set_descriptor(&pool, heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, g->graph);
  pool_set(&pool, heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  use_device(&pool, heuristic, ATTRIBUTE_HEURISTIC_DEVICE, g);
  pool_finalize(&pool, heuristic, "heuristic");
  const int most = room < POOL_SIZE - 1 ? room : POOL_SIZE - 1;
  cudnnBackendDescriptor_t results[POOL_SIZE];
  const int found = get_descriptors(&pool, heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, most, results);
  int count = 0;
  for (int i = 0; i < found; i++) {
    list[count] = read_config(results[i], g);
    if (list[count].engine >= 0) count++;
  }
  pool_free(&pool);
  return count;
}

static unsigned get_bits(cudnn_pool *pool, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type) {
  int note[32]; /* both kinds of notes are enumerations: ints */
  unsigned bits = 0;
  const int count = pool_get(pool, d, name, type, 32, note);
  for (int i = 0; i < count; i++)
    if (note[i] >= 0 && note[i] < 32) bits |= 1u << note[i];
  return bits;
}

static cudnnBackendDescriptor_t make_engine(cudnn_pool *pool, const cudnn_graph *g, int engine) {
  cudnnBackendDescriptor_t d = pool_create(pool, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  pool_set_descriptor(pool, d, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, g->graph);
  pool_set_integer(pool, d, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, engine);
  use_device(pool, d, ATTRIBUTE_ENGINE_DEVICE, g);
  pool_finalize(pool, d, "engine");
  return d;
}

engine_facts engine_ask(const cudnn_graph *g, int engine) {
  engine_facts facts = {0};
  cudnn_pool pool = {0};
  cudnnBackendDescriptor_t info[KNOBS], d = make_engine(&pool, g, engine);
  facts.usable = pool.status == CUDNN_STATUS_SUCCESS;
  facts.notes = get_bits(&pool, d, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE);
  facts.behavior = get_bits(&pool, d, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE);
  const int knobs = get_descriptors(&pool, d, CUDNN_ATTR_ENGINE_KNOB_INFO, CUDNN_BACKEND_KNOB_INFO_DESCRIPTOR, KNOBS, info);
  for (int i = 0; i < knobs; i++) {
    cudnnBackendKnobType_t type;
    if (pool_get(&pool, info[i], CUDNN_ATTR_KNOB_INFO_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type) != 1) continue;
    facts.knob[facts.knobs++] = (knob_range){.type = (int)type,
                                             .least = get_integer(&pool, info[i], CUDNN_ATTR_KNOB_INFO_MINIMUM_VALUE),
                                             .most = get_integer(&pool, info[i], CUDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE),
                                             .stride = get_integer(&pool, info[i], CUDNN_ATTR_KNOB_INFO_STRIDE)};
  }
  pool_free(&pool);
  return facts;
}

/* ---------------------------------------------------------------- plans */

int plan_build(cudnn_plan *p, const cudnn_graph *g, cudnnHandle_t handle, const cudnn_config *config) {
  *p = (cudnn_plan){.config = *config};
  cudnn_pool *pool = &p->pool;
  cudnnBackendDescriptor_t choice[KNOBS], engine = make_engine(pool, g, config->engine);
  for (int i = 0; i < config->knobs; i++) {
    const cudnnBackendKnobType_t type = (cudnnBackendKnobType_t)config->knob[i].type;
    choice[i] = pool_create(pool, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    pool_set(pool, choice[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type);
    pool_set_integer(pool, choice[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, config->knob[i].value);
    pool_finalize(pool, choice[i], "knob choice");
  }
  cudnnBackendDescriptor_t d = pool_create(pool, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  pool_set_descriptor(pool, d, CUDNN_ATTR_ENGINECFG_ENGINE, engine);
  if (config->knobs) pool_set(pool, d, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, config->knobs, choice);
  pool_finalize(pool, d, "engine configuration");
  p->plan = pool_create(pool, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  if (handle) pool_set(pool, p->plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
  pool_set_descriptor(pool, p->plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, d);
  use_device(pool, p->plan, ATTRIBUTE_PLAN_DEVICE, g);
  pool_finalize(pool, p->plan, "execution plan");
  p->notes = get_bits(pool, engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE);
  p->behavior = get_bits(pool, engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE);
  const int64_t workspace = get_integer(pool, p->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
  p->workspace = workspace > 0 ? (size_t)workspace : 0;
  return pool->status ? -1 : 0;
}

void plan_free(cudnn_plan *p) { pool_free(&p->pool); }
#endif
