/* Sizes of a convolution: the benchdnn grammar, the checks, the counts. See problem.h. */
#include "common/conv/problem.h"

#include <ctype.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const pass_names[PASS_COUNT] = {"fprop", "dgrad", "wgrad"};
static const char *const dtype_names[DTYPE_COUNT] = {"fp32", "fp16"};
static const char *const layout_names[LAYOUT_COUNT] = {"NCHW", "NHWC"};

const char *pass_name(conv_pass pass) { return pass_names[pass]; }
const char *dtype_name(conv_dtype dtype) { return dtype_names[dtype]; }
const char *layout_name(conv_layout layout) { return layout_names[layout]; }
size_t dtype_bytes(conv_dtype dtype) { return dtype == DTYPE_FP16 ? 2 : 4; }

/* ---------------------------------------------------------------- reading */

/* The fields of the grammar. The w-fields follow their h-fields, so that field + 1 is the same size along the other axis. */
enum { F_G, F_MB, F_IC, F_OC, F_IH, F_IW, F_OH, F_OW, F_KH, F_KW, F_SH, F_SW, F_DH, F_DW, F_PH, F_PW, F_COUNT };
enum { ABSENT = -1 };

static const struct {
  const char *name;
  int lowest;
} fields[F_COUNT] = {
    [F_G] = {"g", 1},   [F_MB] = {"mb", 1}, [F_IC] = {"ic", 1}, [F_OC] = {"oc", 1}, [F_IH] = {"ih", 1}, [F_IW] = {"iw", 1},
    [F_OH] = {"oh", 1}, [F_OW] = {"ow", 1}, [F_KH] = {"kh", 1}, [F_KW] = {"kw", 1}, [F_SH] = {"sh", 1}, [F_SW] = {"sw", 1},
    [F_DH] = {"dh", 0}, [F_DW] = {"dw", 0}, [F_PH] = {"ph", 0}, [F_PW] = {"pw", 0},
};
static const char *const fields_3d[] = {"id", "od", "kd", "sd", "dd", "pd"};

__attribute__((format(printf, 3, 4))) static int fail(char *error, size_t size, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(error, size, format, arguments);
  va_end(arguments);
  return -1;
}

/* At most 24 characters of what was found instead, on one line whatever they are. */
static const char *excerpt(const char *text, char buffer[32]) {
  size_t n = strcspn(text, "\r\n");
  if (n > 24) n = 24;
  for (size_t i = 0; i < n; i++) buffer[i] = isprint((unsigned char)text[i]) ? text[i] : '?';
  buffer[n] = 0;
  return buffer;
}

/* Reads n"name*3": the rest of the line, quoted or up to white space or a comment. A name is there to be recognized: a longer one is cut. */
static int parse_name(conv_problem *p, const char **cursor, char *error, size_t error_size) {
  const char *from = *cursor, *to;
  if (*from == '"') {
    to = strchr(++from, '"');
    if (!to) return fail(error, error_size, "n: expected a closing quote after n\"");
    *cursor = to + 1;
  } else {
    to = from + strcspn(from, " \t\r\n#");
    *cursor = to;
  }
  const char *star = to;
  while (star > from && isdigit((unsigned char)star[-1])) star--;
  if (star < to && star > from && star[-1] == '*') {
    const long repeat = strtol(star, NULL, 10);
    if (repeat < 1 || repeat > 1000000) return fail(error, error_size, "n: expected a count from 1 to 1000000 after *, got %.*s", (int)(to - star), star);
    p->repeat = (int)repeat;
    to = star - 1;
  }
  if (to - from >= CONV_NAME_MAX) to = from + CONV_NAME_MAX - 1;
  for (const char *c = from; c < to; c++)
    if (!isprint((unsigned char)*c) || *c == '"') return fail(error, error_size, "n: expected printable ASCII characters without quotes in the name");
  memcpy(p->name, from, (size_t)(to - from));
  p->name[to - from] = 0;
  return 0;
}

/* Splits the text into field values. */
static int parse_fields(conv_problem *p, int value[F_COUNT], const char *text, char *error, size_t error_size) {
  bool is_3d = false, out_of_range = false;
  char found[32];
  const char *cursor = text;
  for (;;) {
    while (*cursor == '_') cursor++;
    const char *rest = cursor + strspn(cursor, " \t\r\n");
    if (*rest == 0 || *rest == '#') break;
    if (rest != cursor) return fail(error, error_size, "shape: expected nothing after the problem, got \"%s\"", excerpt(rest, found));
    if (*cursor == 'n') {
      cursor++;
      if (parse_name(p, &cursor, error, error_size)) return -1;
      const char *after = cursor + strspn(cursor, " \t\r\n");
      if (*after != 0 && *after != '#') return fail(error, error_size, "shape: expected nothing after the name, got \"%s\"", excerpt(after, found));
      break;
    }
    size_t letters = 0;
    while (isalpha((unsigned char)cursor[letters])) letters++;
    int field = F_COUNT;
    for (int i = 0; i < F_COUNT; i++)
      if (strlen(fields[i].name) == letters && strncmp(fields[i].name, cursor, letters) == 0) field = i;
    bool field_3d = false;
    for (size_t i = 0; i < sizeof fields_3d / sizeof *fields_3d; i++)
      if (letters == 2 && strncmp(fields_3d[i], cursor, 2) == 0) field_3d = true;
    if (letters == 0 || (field == F_COUNT && !field_3d))
      return fail(error, error_size, "shape: expected one of g mb ic ih iw oc oh ow kh kw sh sw dh dw ph pw n, got \"%s\"", excerpt(cursor, found));
    const char *name = field_3d ? "depth field" : fields[field].name;
    const int lowest = field_3d ? 0 : fields[field].lowest;
    cursor += letters;
    char *end;
    const bool negative = *cursor == '-';
    if (!isdigit((unsigned char)cursor[negative]))
      return fail(error, error_size, "%s: expected an integer from %d, got \"%s\"", name, lowest, excerpt(cursor, found));
    const long long number = strtoll(cursor, &end, 10);                         /* saturates, so that the range check below sees an overflow */
    const int highest = field == F_DH || field == F_DW ? INT_MAX - 1 : INT_MAX; /* a dilation is stored as one more */
    const long long fits = number < lowest ? lowest : number > highest ? highest : number;
    if (number != fits && !out_of_range) { /* said at the end: a problem that is not 2-D may be larger than anything here */
      fail(error, error_size, "%s: expected an integer from %d to %d, got %.*s", name, lowest, highest, (int)(end - cursor < 24 ? end - cursor : 24), cursor);
      out_of_range = true;
    }
    cursor = end;
    if (field_3d) {
      is_3d = true;
    } else {
      if (value[field] != ABSENT) return fail(error, error_size, "%s: expected once, given twice", name);
      value[field] = (int)fits;
    }
  }
  if (is_3d) {
    fail(error, error_size, "shape: expected a 2-D convolution, got a 3-D one (id, od, kd, sd, dd or pd)");
    return PROBLEM_NOT_2D;
  }
  bool any_h = false, any_w = false;
  for (int i = F_IH; i < F_COUNT; i += 2) {
    any_h |= value[i] != ABSENT;
    any_w |= value[i + 1] != ABSENT && !(i == F_SH && value[i + 1] == 1) && !((i == F_DH || i == F_PH) && value[i + 1] == 0);
  }
  if (any_w && !any_h) {
    fail(error, error_size, "shape: expected a 2-D convolution, got a 1-D one (no field along h)");
    return PROBLEM_NOT_2D;
  }
  if (out_of_range) return -1;
  if (!any_w) /* a square problem: the w-fields copy the h-fields (sw1, dw0 or pw0 alone do not count as given, as in benchdnn) */
    for (int i = F_IH; i < F_COUNT; i += 2) value[i + 1] = value[i];
  return 0;
}

/* One axis: deduces output or padding from the other and checks that they agree. */
static int deduce_axis(const int value[F_COUNT], int w, int *in, int *filter, int *out, int *stride, int *dil, int *pad_lo, int *pad_hi, char *error,
                       size_t error_size) {
  const char *in_name = fields[F_IH + w].name, *filter_name = fields[F_KH + w].name, *out_name = fields[F_OH + w].name, *pad_name = fields[F_PH + w].name;
  if (value[F_IH + w] == ABSENT) return fail(error, error_size, "%s: expected %s and an integer from 1, it is missing", in_name, in_name);
  if (value[F_KH + w] == ABSENT) return fail(error, error_size, "%s: expected %s and an integer from 1, it is missing", filter_name, filter_name);
  const int64_t i = value[F_IH + w], k = value[F_KH + w];
  const int64_t s = value[F_SH + w] == ABSENT ? 1 : value[F_SH + w];
  const int64_t d = value[F_DH + w] == ABSENT ? 1 : (int64_t)value[F_DH + w] + 1;
  const int64_t extent = (k - 1) * d + 1;
  if (extent > INT_MAX) return fail(error, error_size, "%s: expected a dilated filter of at most %d pixels, got %lld", filter_name, INT_MAX, (long long)extent);
  int64_t lo = value[F_PH + w], hi, o = value[F_OH + w];
  if (o == ABSENT) {
    if (lo == ABSENT) lo = 0;
    if (extent > i + 2 * lo)
      return fail(error, error_size, "%s: expected a filter of at most %lld pixels (%s%lld padded by %lld on both sides), got %lld", filter_name,
                  (long long)(i + 2 * lo), in_name, (long long)i, (long long)lo, (long long)extent);
    o = (i + 2 * lo - extent) / s + 1;
    if (o > INT_MAX || lo > INT_MAX) return fail(error, error_size, "%s: expected at most %d, deduced %lld", out_name, INT_MAX, (long long)o);
    hi = (o - 1) * s + extent - i - lo;
  } else {
    if (o - 1 > (INT64_MAX / 2) / s) return fail(error, error_size, "%s: expected fewer, got %lld at a stride of %lld", out_name, (long long)o, (long long)s);
    const int64_t total = (o - 1) * s + extent - i; /* padding that the last window needs; negative: pixels no window reaches */
    if (lo == ABSENT) lo = total > 0 ? total / 2 : 0;
    hi = total - lo;
    const int64_t least = i + lo >= extent ? (i + lo - extent) / s + 1 : 1; /* there is no most: the last windows may see nothing but padding */
    if (o < least)
      return fail(error, error_size, "%s: expected at least %lld with %s%lld %s%lld %s%lld, got %lld", out_name, (long long)least, in_name, (long long)i,
                  filter_name, (long long)k, pad_name, (long long)lo, (long long)o);
  }
  if (lo > INT_MAX) return fail(error, error_size, "%s: expected at most %d, deduced %lld", pad_name, INT_MAX, (long long)lo);
  if (hi < 0) hi = 0;
  if (i + lo + hi > INT_MAX) return fail(error, error_size, "%s: expected a padded input of at most %d pixels", pad_name, INT_MAX);
  *in = (int)i, *filter = (int)k, *out = (int)o, *stride = (int)s, *dil = (int)d, *pad_lo = (int)lo, *pad_hi = (int)hi;
  return 0;
}

/* Refuses tensors whose sizes in bytes, as fp64 and with the reference's sums beside them, would overflow 64 bits. */
static int check_sizes(const conv_problem *p, char *error, size_t error_size) {
  const struct {
    const char *fields;
    int dim[4];
  } tensors[3] = {{"mb ic ih iw", {p->N, p->C, p->H, p->W}}, {"oc ic kh kw", {p->K, p->C / p->groups, p->R, p->S}}, {"mb oc oh ow", {p->N, p->K, p->P, p->Q}}};
  for (int t = 0; t < 3; t++) {
    int64_t bytes = 64;
    for (int i = 0; i < 4; i++)
      if (__builtin_mul_overflow(bytes, (int64_t)tensors[t].dim[i], &bytes))
        return fail(error, error_size, "%s: expected sizes whose product in bytes fits 64 bits, got %d x %d x %d x %d", tensors[t].fields, tensors[t].dim[0],
                    tensors[t].dim[1], tensors[t].dim[2], tensors[t].dim[3]);
  }
  return 0;
}

int problem_parse(conv_problem *result, const char *text, char *error, size_t error_size) {
  conv_problem p = {.repeat = 1};
  int value[F_COUNT];
  for (int i = 0; i < F_COUNT; i++) value[i] = ABSENT;
  const char *start = text + strspn(text, " \t\r\n_");
  if (*start == 0 || *start == '#') return fail(error, error_size, "shape: expected benchdnn fields such as mb16ic64ih56oc128oh56kh3ph1, got an empty string");
  const int status = parse_fields(&p, value, start, error, error_size);
  if (status) return status;
  if (value[F_IC] == ABSENT) return fail(error, error_size, "ic: expected ic and an integer from 1, it is missing");
  if (value[F_OC] == ABSENT) return fail(error, error_size, "oc: expected oc and an integer from 1, it is missing");
  p.N = value[F_MB] == ABSENT ? 2 : value[F_MB];
  p.C = value[F_IC];
  p.K = value[F_OC];
  p.groups = value[F_G] == ABSENT ? 1 : value[F_G];
  if (p.C % p.groups) return fail(error, error_size, "ic: expected a multiple of g%d, got %d", p.groups, p.C);
  if (p.K % p.groups) return fail(error, error_size, "oc: expected a multiple of g%d, got %d", p.groups, p.K);
  if (deduce_axis(value, 0, &p.H, &p.R, &p.P, &p.stride_h, &p.dil_h, &p.pad_top, &p.pad_bottom, error, error_size)) return -1;
  if (deduce_axis(value, 1, &p.W, &p.S, &p.Q, &p.stride_w, &p.dil_w, &p.pad_left, &p.pad_right, error, error_size)) return -1;
  if (check_sizes(&p, error, error_size)) return -1;
  *result = p;
  return 0;
}

int problem_set_batch(conv_problem *p, int batch, char *error, size_t error_size) {
  conv_problem changed = *p;
  changed.N = batch;
  if (batch < 1) return fail(error, error_size, "mb: expected an integer from 1 to %d, got %d", INT_MAX, batch);
  if (check_sizes(&changed, error, error_size)) return -1;
  *p = changed;
  return 0;
}

/* ---------------------------------------------------------------- printing */

typedef struct {
  char *text;
  size_t size, length;
} writer;

__attribute__((format(printf, 2, 3))) static void put(writer *w, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const size_t room = w->length < w->size ? w->size - w->length : 0;
  w->length += (size_t)vsnprintf(room ? w->text + w->length : NULL, room, format, arguments);
  va_end(arguments);
}

/* The string may leave padding out where the reader would deduce the same from the output size, and it is 0. */
static bool pad_needed(int in, int filter, int out, int stride, int dil, int pad_lo) {
  const int64_t total = (int64_t)(out - 1) * stride + (int64_t)(filter - 1) * dil + 1 - in;
  return pad_lo != 0 || total / 2 > 0;
}

int problem_print(const conv_problem *p, char *text, size_t size) {
  writer w = {text, size, 0};
  const bool square = p->H == p->W && p->R == p->S && p->P == p->Q && p->stride_h == p->stride_w && p->dil_h == p->dil_w && p->pad_top == p->pad_left;
  if (size) text[0] = 0;
  if (p->groups != 1) put(&w, "g%d", p->groups);
  put(&w, "mb%dic%dih%d", p->N, p->C, p->H);
  if (!square) put(&w, "iw%d", p->W);
  put(&w, "oc%doh%d", p->K, p->P);
  if (!square) put(&w, "ow%d", p->Q);
  put(&w, "kh%d", p->R);
  if (!square) put(&w, "kw%d", p->S);
  if (p->stride_h != 1) put(&w, "sh%d", p->stride_h);
  if (!square && p->stride_w != 1) put(&w, "sw%d", p->stride_w);
  if (p->dil_h != 1) put(&w, "dh%d", p->dil_h - 1);
  if (!square && p->dil_w != 1) put(&w, "dw%d", p->dil_w - 1);
  if (pad_needed(p->H, p->R, p->P, p->stride_h, p->dil_h, p->pad_top)) put(&w, "ph%d", p->pad_top);
  if (!square && pad_needed(p->W, p->S, p->Q, p->stride_w, p->dil_w, p->pad_left)) put(&w, "pw%d", p->pad_left);
  if (p->name[0] || p->repeat != 1) put(&w, "n\"%s", p->name);
  const char *star = strrchr(p->name, '*');
  const bool ambiguous = star && star[1] && strspn(star + 1, "0123456789") == strlen(star + 1); /* a name that itself ends in *3 */
  if (p->repeat != 1 || ambiguous) put(&w, "*%d", p->repeat);
  if (p->name[0] || p->repeat != 1) put(&w, "\"");
  return (int)w.length;
}

bool problem_equal(const conv_problem *a, const conv_problem *b) {
  conv_problem left = *a, right = *b;
  memset(left.name, 0, sizeof left.name), memset(right.name, 0, sizeof right.name);
  left.repeat = right.repeat = 1;
  return memcmp(&left, &right, sizeof left) == 0;
}

/* ---------------------------------------------------------------- counting */

int64_t problem_x_count(const conv_problem *p) { return (int64_t)p->N * p->C * p->H * p->W; }
int64_t problem_w_count(const conv_problem *p) { return (int64_t)p->K * (p->C / p->groups) * p->R * p->S; }
int64_t problem_y_count(const conv_problem *p) { return (int64_t)p->N * p->K * p->P * p->Q; }

int64_t problem_terms(const conv_problem *p, conv_pass pass) {
  const int64_t taps = (int64_t)p->R * p->S;
  if (pass == PASS_FPROP) return p->C / p->groups * taps;
  if (pass == PASS_DGRAD) return p->K / p->groups * taps;
  return (int64_t)p->N * p->P * p->Q;
}

double problem_macs(const conv_problem *p) { return (double)problem_y_count(p) * (double)problem_terms(p, PASS_FPROP); }

/* How much of an axis the windows see: pixels under some window, outputs whose window meets the image, taps that meet it somewhere. */
typedef struct {
  int64_t in, out, taps;
} axis_reach;

/* Of the points first, first + step, ... (`count` of them), those inside [0, size) are number *from up to, but not including, the result. */
static int64_t points_inside(int64_t first, int64_t step, int64_t count, int64_t size, int64_t *from) {
  *from = first < 0 ? (-first + step - 1) / step : 0;
  const int64_t end = first < size ? (size - 1 - first) / step + 1 : 0, last = end < count ? end : count;
  return last > *from ? last : *from;
}

static int64_t common_divisor(int64_t a, int64_t b) { return b ? common_divisor(b, a % b) : a; }

static axis_reach reach_of(int in, int taps, int out, int stride, int dil, int pad) {
  axis_reach reach = {0};
  const int64_t period = stride / common_divisor(stride, dil); /* the taps r and r - period see pixels of one residue, `moved` windows apart */
  const int64_t moved = period * dil / stride;
  int64_t from;
  for (int tap = 0; tap < taps; tap++) {
    const int64_t to = points_inside((int64_t)tap * dil - pad, stride, out, in, &from);
    reach.taps += to > from;
    const int64_t seen = out - moved; /* by the tap one period before: this tap's windows below */
    if (tap >= period && seen > from) from = seen;
    if (to > from) reach.in += to - from;
  }
  const int64_t to = points_inside(-(int64_t)pad, stride, out, in, &from); /* windows whose first tap is inside; those before, one by one */
  reach.out = to - from;
  for (int64_t q = 0; q < from && q < out; q++) {
    int64_t first;
    reach.out += points_inside(q * stride - pad, dil, taps, in, &first) > first;
  }
  return reach;
}

conv_traffic problem_traffic(const conv_problem *p, conv_pass pass, conv_dtype dtype) {
  const axis_reach h = reach_of(p->H, p->R, p->P, p->stride_h, p->dil_h, p->pad_top);
  const axis_reach w = reach_of(p->W, p->S, p->Q, p->stride_w, p->dil_w, p->pad_left);
  const double bytes = (double)dtype_bytes(dtype);
  const double x = bytes * p->N * p->C * (double)h.in * (double)w.in, y = bytes * p->N * p->K * (double)h.out * (double)w.out;
  const double filters = bytes * p->K * (p->C / p->groups) * (double)h.taps * (double)w.taps;
  if (pass == PASS_FPROP) return (conv_traffic){.read = x + filters, .written = bytes * (double)problem_y_count(p), .filters = filters};
  if (pass == PASS_DGRAD) return (conv_traffic){.read = y + filters, .written = bytes * (double)problem_x_count(p), .filters = filters};
  return (conv_traffic){.read = x + y, .written = bytes * (double)problem_w_count(p)};
}

double problem_bytes(const conv_problem *p, conv_pass pass, conv_dtype dtype) {
  const conv_traffic t = problem_traffic(p, pass, dtype);
  return t.read + t.written;
}
