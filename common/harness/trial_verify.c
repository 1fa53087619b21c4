/* A trial: data, reference, verification; trial_time.c times. See trial.h. */
#include "common/harness/trial.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/conv/operation_reference.h"
#include "common/conv/transposed.h"
#include "common/conv/verify.h"
#include "common/files/npy.h"
#include "common/harness/trial_state.h"

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static cudaError_t finish(const trial *t) { return t->place == ON_GPU ? cudaDeviceSynchronize() : cudaSuccess; }

/* Runs one kernel once on fresh buffers and judges everything it left behind. */
static cudaError_t verify_kernel(trial_state *s, int index, compare_mode mode, result_row *row) {
  const trial *t = s->t;
  const conv_kernel *kernel = t->kernels[index];
  const conv_plan *plan = &s->plans[index];
  conv_verdict verdict;
  buffer_sets set = buffer_sets_plan_fused(t->place, s->host, &s->fused, plan->workspace_bytes);
  cudaError_t status = buffer_sets_alloc(&set, 1);
  if (status == cudaErrorMemoryAllocation) {
    trial_no_buffers(s, &set);
    row->status = RESULT_SKIPPED;
    snprintf(row->note, sizeof row->note, "%s", s->no_room);
    return cudaSuccess;
  }
  const error_rule rule = trial_rule(s, kernel);
  const bool judged = mode == COMPARE_EXACT || isfinite(rule.growth);
  if (!status) status = trial_upload(s, &set);
  const conv_buffers view = buffer_view(&set, 0);
  if (!status) status = finish(t);
  const double start = now();
#ifdef CUDA_EMULATOR
  emu_count_work(2 * problem_macs(t->problem), kernel->name); /* make count-NN sees memory, not arithmetic */
#endif
  if (!status) status = kernel->launch(plan, &view, 0);
  if (!status) status = finish(t);
  row->run_seconds = now() - start;
  if (status) {
    row->status = RESULT_WRONG;
    snprintf(row->note, sizeof row->note, "launch failed: %s", cudaGetErrorString(status));
  } else if (!trial_untouched(s, &set, 0, row->note, sizeof row->note, &status)) {
    if (!status) row->status = RESULT_WRONG;
    if (!status && t->options->keep_wrong) status = trial_download(s, &set, 0);
  } else if (!judged) {
    status = trial_download(s, &set, 0);
    snprintf(row->note, sizeof row->note, "ran, and nothing was compared: no bound for its error on data that is not random");
  } else if (!(status = trial_judge(s, &set, 0, mode, rule, s->log, &verdict))) {
    if (!verdict.right) {
      row->status = RESULT_WRONG;
      snprintf(row->note, sizeof row->note, "%s data: %lld elements wrong", mode == COMPARE_EXACT ? "integer" : "random", (long long)verdict.mismatches);
    }
    row->exact_checked |= mode == COMPARE_EXACT;
    row->bound_checked |= mode == COMPARE_BOUND;
    if (mode == COMPARE_BOUND) row->worst_share = verdict.worst_share, row->plain_share = verdict.plain_share;
  }
  buffer_sets_free(&set);
  return status;
}

/* Data from a file may be anything: refuses what is no number. Returns 0, or 2 with a line on stderr. */
static int check_finite(const trial_state *s, const conv_tensor *t) {
  for (int64_t i = 0; i < t->count; i++) {
    if (isfinite(tensor_get(t, i))) continue;
    int at[4];
    tensor_coordinates(t, i, at);
    fprintf(stderr, "%s: expected finite numbers, got %s at (%s) = (%d,%d,%d,%d)\n", s->t->options->npy_in[t->role], isnan(tensor_get(t, i)) ? "nan" : "inf",
            role_axes(t->role), at[0], at[1], at[2], at[3]);
    return 2;
  }
  return 0;
}

enum { NO_ROOM = 3 }; /* beside what trial_run returns: too little memory to verify, no_room says for what */

static int failed(int status, const char *error) {
  if (status != NO_ROOM) fprintf(stderr, "%s\n", error);
  return status;
}

/* And partial sums that no fp32 can hold, or results that no fp16 can. Returns what prepare() does. */
static int check_sums(const trial_state *s, char *error, size_t error_size) {
  const conv_dtype dtype = s->reference.shape.dtype;
  const double highest = dtype == DTYPE_FP16 ? 65504 : FLT_MAX;
  double reached = (double)s->reference.largest_scale;
  if (reached > highest && reached <= FLT_MAX) {
    const cudaError_t status = trial_largest_result(s, &reached);
    snprintf(error, error_size, "the largest result: %s", cudaGetErrorString(status));
    if (status) return failed(1, error);
  }
  if (reached <= highest) return 0;
  fprintf(stderr, "--x, --w, --dy: expected data whose sums stay below %g in magnitude (%s), they reach %g\n", highest, dtype_name(dtype), reached);
  return 2;
}

/* Inputs and reference on the host. Returns what prepare() does. */
static int prepare_on_host(trial_state *s, const conv_source from[3], uint64_t fused_seed, int magnitude, bool random, char *error, size_t error_size) {
  const trial *t = s->t;
  for (int role = 0; role < 3; role++)
    if (role != (int)s->output && !from[role].given) tensor_fill(&s->host[role], from[role]);
  epilogue_free(&s->fused);
  if (epilogue_fill(&s->fused, fused_seed, magnitude)) {
    snprintf(error, error_size, "no host memory for what the epilogue reads");
    return NO_ROOM;
  }
  const bool use_gpu = t->gpu_reference && problem_macs(t->problem) > MANY_MACS;
  const conv_tensor *a = &s->host[s->input_a], *b = &s->host[s->input_b];
  const int wrong = t->options->transposed && !use_gpu ? reference_transposed(&s->reference, t->problem, a, b, random, error, error_size)
                                                       : reference_compute(&s->reference, t->problem, t->pass, a, b, random, use_gpu, error, error_size);
  if (wrong) return failed(wrong == REFERENCE_NO_ROOM ? NO_ROOM : 1, error);
  s->reference.shape.dtype = s->host[s->output].dtype;
  if (!epilogue_empty(&t->epilogue)) reference_fuse(&s->reference, &t->epilogue, &s->fused);
  return 0;
}

/* Fills the inputs and computes the reference. mode says which data. Returns 0, 1 or 2 as trial_run does, with a line in `error` and on stderr; or NO_ROOM, with
 * a line in `error`. */
static int prepare(trial_state *s, compare_mode mode, int magnitude, char *error, size_t error_size) {
  const trial *t = s->t;
  const uint64_t fused_seed = t->options->seed * 2 + (uint64_t)mode;
  const int largest = mode == COMPARE_EXACT ? magnitude : 0;
  conv_source from[3] = {0}, fused[3];
  bool from_files = false;
  for (int role = 0; role < 3; role++) {
    const char *path = mode == COMPARE_BOUND && role != (int)s->output ? t->options->npy_in[role] : NULL;
    fused[role] = epilogue_source(role, fused_seed, largest, s->host[s->output].dtype);
    from[role] =
        (conv_source){.given = path ? &s->host[role] : NULL, .seed = t->options->seed * 16 + (uint64_t)mode * 4 + (uint64_t)role, .magnitude = largest};
    if (!path) continue;
    from_files = true;
    if (npy_read(&s->host[role], path, error, error_size)) return failed(2, error);
    if (check_finite(s, &s->host[role])) return 2;
  }
  reference_free(&s->reference);
  if (s->on_device) {
    const int made = device_check_prepare(&s->device, &s->reference, t, from, fused, !from_files, error, error_size);
    if (made && made != REFERENCE_NO_ROOM) return failed(1, error);
    if (made) {
      device_check_free(&s->device);
      s->on_device = false;
      if (!trial_host_memory(s)) {
        snprintf(error, error_size, "%s", s->no_room);
        return NO_ROOM;
      }
    }
  }
  if (!s->on_device) {
    const int status = prepare_on_host(s, from, fused_seed, largest, !from_files, error, error_size);
    if (status) return status;
  }
  return from_files ? check_sums(s, error, error_size) : 0;
}

/* ---------------------------------------------------------------- the whole */

/* Does the kernel stay exact on this problem's integers? */
static bool is_exact(const trial *t, const conv_kernel *kernel, int magnitude) {
  const int64_t factor = (kernel->exact_factor ? kernel->exact_factor : 1) * epilogue_exact_factor(&t->epilogue);
  const int64_t added = epilogue_empty(&t->epilogue) ? 0 : EPILOGUE_ADDS;
  return factor > 0 && magnitude > 0 && factor * magnitude * magnitude * problem_terms(t->problem, t->pass) + added < (1 << 24);
}

/* Which comparisons a kernel must pass: with integers, where the data is ours and its sums stay exact; and within the bound, but where --exact asks
 * for no more than integers. At least one of them. */
static bool exact_is_due(const trial *t, const conv_kernel *kernel, int magnitude) { return !options_from_files(t->options) && is_exact(t, kernel, magnitude); }
static bool bound_is_due(const trial *t, const conv_kernel *kernel, int magnitude) { return !(t->options->exact_only && exact_is_due(t, kernel, magnitude)); }

/* Notes why rows are not verified, where they do not tell themselves. */
static void note_unverified(const trial *t, result_row rows[], const char *why) {
  for (int i = 0; i < t->kernel_count; i++)
    if (rows[i].status == RESULT_UNVERIFIED) snprintf(rows[i].note, sizeof rows[i].note, "%.255s", why);
}

/* Nothing runs: no kernel has what it needs. */
static void leave_out(const trial *t, result_row rows[], const char *why) {
  note_unverified(t, rows, why);
  for (int i = 0; i < t->kernel_count; i++)
    if (rows[i].status == RESULT_UNVERIFIED) rows[i].status = RESULT_SKIPPED;
}

/* Verifies all kernels that still are in, with one kind of data. Returns what trial_run returns, or NO_ROOM. */
static int verify_all(trial_state *s, compare_mode mode, int magnitude, result_row rows[]) {
  const trial *t = s->t;
  char error[512] = "";
  const int status = prepare(s, mode, magnitude, error, sizeof error);
  if (status) {
    note_unverified(t, rows, error);
    if (status == NO_ROOM) snprintf(s->no_room, sizeof s->no_room, "%.255s", error);
    return status;
  }
  for (int i = 0; i < t->kernel_count; i++) {
    if (rows[i].status != RESULT_UNVERIFIED) continue;
    if (!(mode == COMPARE_EXACT ? exact_is_due : bound_is_due)(t, t->kernels[i], magnitude)) continue;
    const bool named = t->options->kernel && strcmp(t->options->kernel, "auto") != 0;
    if (mode == COMPARE_BOUND && !named && !isfinite(trial_rule(s, t->kernels[i]).growth)) {
      snprintf(rows[i].note, sizeof rows[i].note, "no bound for its error on data that is not random (--kernel %s runs it unverified)", t->kernels[i]->name);
      rows[i].status = RESULT_SKIPPED;
    } else if (verify_kernel(s, i, mode, &rows[i])) {
      note_unverified(t, rows, "not run to the end: a launch or a copy before it failed");
      return 1;
    }
  }
  return 0;
}

/* Right is what passed every comparison that was due. */
static void conclude(const trial *t, int magnitude, result_row rows[]) {
  for (int i = 0; i < t->kernel_count; i++) {
    const bool exact = exact_is_due(t, t->kernels[i], magnitude), bound = bound_is_due(t, t->kernels[i], magnitude);
    if (rows[i].status != RESULT_UNVERIFIED) continue;
    if ((rows[i].exact_checked || !exact) && (rows[i].bound_checked || !bound)) rows[i].status = RESULT_RIGHT;
    else if (!rows[i].note[0]) snprintf(rows[i].note, sizeof rows[i].note, "not compared with the reference");
  }
}

/* What the last timed sample wrote was to be verified too: where the timing broke off, that was not done. */
static void unverify(const trial *t, result_row rows[], const char *error) {
  for (int i = 0; i < t->kernel_count; i++) {
    if (rows[i].status != RESULT_RIGHT) continue;
    rows[i].status = RESULT_UNVERIFIED;
    snprintf(rows[i].note, sizeof rows[i].note, "right once, but the timing broke off before its last sample was compared: %s", error);
  }
}

/* --out: writes the result if it is right, or wanted all the same. Returns 0; 1 if it could not be written, 2 if there is none, after a line on stderr. */
static int write_result(const trial_state *s, report *r, const result_row *row) {
  const bool wrong = row->status == RESULT_WRONG && s->has_output;
  if (!r->out) return 0;
  if (row->status == RESULT_SKIPPED) {
    fprintf(stderr, "--out: expected a kernel that does this problem, %s does not: %s\n", row->kernel->name, row->note);
    return 2;
  }
  if (wrong && !s->t->options->keep_wrong) fprintf(r->text, "  --out: not written, the result is wrong (--keep-wrong writes it all the same)\n");
  if (row->status == RESULT_WRONG && !(wrong && s->t->options->keep_wrong)) return 0; /* unverified: it is what the user asked for by name */
  if (!s->has_output) return 0;
  npy_write(&s->host[s->output], r->out->file);
  const int unwritten = output_close(r->out) ? 1 : 0;
  r->out = NULL;
  return unwritten;
}

/* Was there too little memory for every kernel that can do the problem? */
static bool no_room_for_any(const trial_state *s, const result_row rows[]) {
  for (int i = 0; i < s->t->kernel_count; i++)
    if (rows[i].status != RESULT_SKIPPED) return false;
  return s->no_room[0] != 0;
}

static int run(trial_state *s, report *r, result_row rows[], contender contenders[]) {
  const trial *t = s->t;
  const int magnitude = exact_magnitude(problem_terms(t->problem, t->pass));
  static cudnn_figures cudnn, fused; /* rows point to them */
  int status = 0, exact = 0, bound = 0;
  cudnn = fused = (cudnn_figures){0};
  for (int i = 0; i < t->kernel_count; i++) {
    if (rows[i].status != RESULT_UNVERIFIED) continue;
    exact += exact_is_due(t, t->kernels[i], magnitude);
    bound += bound_is_due(t, t->kernels[i], magnitude);
  }
  if (exact) status = verify_all(s, COMPARE_EXACT, magnitude, rows);
  if (bound && !status) status = verify_all(s, COMPARE_BOUND, magnitude, rows);
  const bool no_room = status == NO_ROOM || (!status && no_room_for_any(s, rows));
  if (!status) conclude(t, magnitude, rows);
  if (no_room) status = trial_refused(s) ? 2 : 0;
  for (int i = 0; i < t->kernel_count && !magnitude; i++)
    if (rows[i].status == RESULT_RIGHT) snprintf(rows[i].note, sizeof rows[i].note, "2^24 terms or more: no exact integers");
  const int unwritten = status ? 0 : write_result(s, r, &rows[0]);
  if (unwritten == 2) return 2;
  const bool timed = !no_room && t->options->timing && !t->options->exact_only && (t->place == ON_CPU || !t->machine->device.emulated);
  if (!status && timed) {
    const cudaError_t error = trial_time(s, rows, contenders, &cudnn, &fused);
    if (error) {
      fprintf(stderr, "timing: %s\n", cudaGetErrorString(error));
      unverify(t, rows, cudaGetErrorString(error));
      status = 1;
    }
  }
  if (status != 2)
    for (int i = 0; i < t->kernel_count; i++) report_row(r, &rows[i]);
  if (!status && timed && t->chosen) report_choice(r, rows, t->kernel_count, t->chosen);
  if (!status) report_cudnn(r, &cudnn, &fused);
  return status ? status : unwritten;
}

int trial_run(const trial *t, report *r) {
  static trial_state s;
  s = (trial_state){.t = t, .log = r->text, .input_a = pass_input_a(t->pass), .input_b = pass_input_b(t->pass), .output = pass_output(t->pass)};
  static result_row rows[TRIAL_KERNELS];
  static contender contenders[TRIAL_KERNELS];
  for (int role = 0; role < 3; role++) s.host[role] = operation_tensor(t->problem, t->pass, &t->epilogue, (tensor_role)role, t->dtype, t->layout);
  const conv_operation operation = {.problem = *t->problem, .pass = t->pass, .epilogue = t->epilogue, .transposed = t->options->transposed};
  s.fused = epilogue_describe(&t->epilogue, &s.host[s.output]);
  const bool fits = trial_fits_memory(&s);
  if (!fits && trial_refused(&s)) return 2;
  size_t workspace = 0;
  for (int i = 0; i < t->kernel_count; i++) {
    const conv_kernel *k = t->kernels[i];
    rows[i] = (result_row){.kernel = k, .problem = t->problem, .operation = operation};
    const char *reason = fits ? kernel_plan(k, &operation, &t->machine->device, &s.plans[i]) : s.no_room;
    if (!reason && s.plans[i].workspace_bytes > workspace) workspace = s.plans[i].workspace_bytes;
    if (!reason) continue;
    rows[i].status = fits && s.plans[i].failed ? RESULT_WRONG : RESULT_SKIPPED;
    snprintf(rows[i].note, sizeof rows[i].note, "%s", reason);
  }
  report_problem(r, &operation, t->dtype, t->layout);
  if (fits) {
    const conv_tensor *const given[] = {&s.host[s.input_a], &s.host[s.input_b], &s.fused.residual, &s.fused.scale, &s.fused.bias};
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
      if (tensor_bytes(given[i]) > tensor_bytes(&s.scratch)) s.scratch = *given[i], s.scratch.data = NULL;
    s.on_device = device_check_suits(t, s.host, &s.fused, workspace);
    if (!trial_host_memory(&s)) leave_out(t, rows, s.no_room);
  }
  const int status = run(&s, r, rows, contenders);
  for (int role = 0; role < 3; role++) tensor_free(&s.host[role]);
  tensor_free(&s.scratch);
  epilogue_free(&s.fused);
  reference_free(&s.reference);
  device_check_free(&s.device);
  return status;
}
