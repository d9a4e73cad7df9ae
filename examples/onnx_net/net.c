/* net.c - chains of layers through polyconv's C interface.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "net.h"

#include "values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct net {
  const polyconv_onnx_model *model;
  int32_t count;
  int32_t *follower; /* of each layer: the one that alone reads it, -1 for none */
  int32_t *leader;   /* of each layer: whose follower it is, -1 for nobody's */
  void **outputs;    /* of each layer that ends a chain */
  struct entry {     /* tensors that no layer writes */
    const char *name;
    int32_t kind;  /* POLYCONV_TENSOR_INPUT, of residuals too; WEIGHTS; BIAS */
    int64_t bytes; /* two graphs of a file may have tensors of one name, the branches of an If say */
    void *data;
  } * entries;
  int32_t entry_count;
};

static char error[512];

const char *net_error(void) {
  return error;
}

static int fail(const char *sentence) {
  return snprintf(error, sizeof error, "%s", sentence), 0;
}

static const polyconv_onnx_layer *layer_of(const net *n, int32_t i) {
  return polyconv_onnx_layer_at(n->model, i);
}

/* A layer's follower reads its result as input, and nobody reads it otherwise. */
static void find_followers(net *n) {
  int32_t i, k, from;
  for (i = 0; i < n->count; ++i) n->follower[i] = n->leader[i] = -1;
  for (i = 0; i < n->count; ++i) {
    int32_t readers = 0, reader = -1;
    if (*layer_of(n, i)->reason) continue;
    for (k = i + 1; k < n->count; ++k) {
      readers += layer_of(n, k)->input_layer == i;
      readers += layer_of(n, k)->residual_layer == i;
      if (layer_of(n, k)->input_layer == i) reader = k;
    }
    if (readers != 1 || reader < 0 || *layer_of(n, reader)->reason) continue;
    /* Its residual must be there when the chain begins. Whatever is written before the chain's first layer is. */
    for (from = i; n->leader[from] >= 0;) from = n->leader[from];
    if (layer_of(n, reader)->residual_layer >= from) continue;
    n->follower[i] = reader, n->leader[reader] = i;
  }
}

net *net_create(const polyconv_onnx_model *model) {
  net *n = calloc(1, sizeof *n);
  size_t size;
  if (!n) return NULL;
  n->model = model, n->count = polyconv_onnx_layer_count(model);
  size = (size_t)n->count + 1;
  n->follower = malloc(size * sizeof *n->follower), n->leader = malloc(size * sizeof *n->leader);
  n->outputs = calloc(size, sizeof *n->outputs), n->entries = calloc(4 * size, sizeof *n->entries);
  if (!n->follower || !n->leader || !n->outputs || !n->entries) return net_destroy(n), NULL;
  find_followers(n);
  return n;
}

void net_destroy(net *n) {
  int32_t i;
  if (!n) return;
  for (i = 0; n->outputs && i < n->count; ++i) free(n->outputs[i]);
  for (i = 0; i < n->entry_count; ++i) free(n->entries[i].data);
  free(n->follower), free(n->leader), free(n->outputs), free(n->entries), free(n);
}

int32_t net_chain_length(const net *n, int32_t first) {
  int32_t place = 0, length = 0, i;
  for (i = first; n->leader[i] >= 0; i = n->leader[i]) ++place;
  if (place % POLYCONV_MAX_CHAIN != 0) return 0; /* longer ones are cut */
  for (i = first; i >= 0 && length < POLYCONV_MAX_CHAIN; i = n->follower[i]) ++length;
  return length;
}

/* The tensor of this name: what layer `writer` wrote, or random numbers that stay the same. NULL: no memory. */
static void *tensor(net *n, const polyconv_problem *problem, int32_t which, const char *name, int32_t writer) {
  polyconv_tensor shape;
  int64_t bytes;
  const int32_t kind = which == POLYCONV_TENSOR_RESIDUAL ? POLYCONV_TENSOR_INPUT : which;
  int32_t i;
  if (writer >= 0 && n->outputs[writer]) return n->outputs[writer];
  if (polyconv_problem_tensor(problem, which, &shape, &bytes) != POLYCONV_SUCCESS) return NULL;
  for (i = 0; i < n->entry_count; ++i)
    if (n->entries[i].kind == kind && n->entries[i].bytes == bytes && !strcmp(n->entries[i].name, name))
      return n->entries[i].data;
  n->entries[i].data = malloc((size_t)bytes + 1);
  if (!n->entries[i].data) return NULL;
  n->entries[i].name = name, n->entries[i].kind = kind, n->entries[i].bytes = bytes, n->entry_count = i + 1;
  fill_randomly(n->entries[i].data, shape.type, bytes, (uint32_t)i + 1);
  return n->entries[i].data;
}

/* Problems and buffers of a chain. What the file does not hold, weights in another file say, is random. */
static int describe(net *n, int32_t first, int32_t length, polyconv_problem *problems, polyconv_buffers *buffers) {
  int32_t i, k = first;
  polyconv_buffers_init(buffers);
  for (i = 0; i < length; ++i, k = n->follower[k]) {
    const polyconv_onnx_layer *layer = layer_of(n, k);
    polyconv_problem *problem = &problems[i];
    *problem = layer->problem;
    buffers->weights[i] = (void *)layer->weights, buffers->bias[i] = (void *)layer->bias;
    buffers->scale[i] = layer->scale, buffers->weights_zero_point[i] = layer->weights_zero_point;
    if (!layer->weights) buffers->weights[i] = tensor(n, &layer->problem, POLYCONV_TENSOR_WEIGHTS, layer->name, -1);
    if (problem->epilogue.has_bias && !layer->bias)
      buffers->bias[i] = tensor(n, &layer->problem, POLYCONV_TENSOR_BIAS, layer->output, -1);
    if (*layer->residual && !strcmp(layer->residual, layer_of(n, first)->input))
      problem->epilogue.residual_from = POLYCONV_RESIDUAL_INPUT;
    else if (*layer->residual)
      buffers->residual[i] =
          tensor(n, &layer->problem, POLYCONV_TENSOR_RESIDUAL, layer->residual, layer->residual_layer);
  }
  buffers->input =
      tensor(n, &problems[0], POLYCONV_TENSOR_INPUT, layer_of(n, first)->input, layer_of(n, first)->input_layer);
  for (i = 0; i < length; ++i)
    if (!buffers->weights[i] || (problems[i].epilogue.has_bias && !buffers->bias[i]) ||
        (problems[i].epilogue.residual_from == POLYCONV_RESIDUAL_BUFFER && !buffers->residual[i]))
      return fail("no memory for a tensor");
  return buffers->input || fail("no memory for a tensor");
}

static double now(void) {
  struct timespec time;
#if defined(__MINGW32__) /* whose C library has no timespec_get */
  clock_gettime(CLOCK_REALTIME, &time);
#else
  timespec_get(&time, TIME_UTC);
#endif
  return (double)time.tv_sec * 1e6 + (double)time.tv_nsec * 1e-3;
}

/* Plans, packs once, and runs `runs` times with results in `output`; the quickest run's time. */
static int run_planned(const polyconv_problem *problems, int32_t length, const polyconv_options *options,
                       polyconv_buffers buffers, void *output, int runs, net_result *result) {
  polyconv_plan *plan = NULL;
  polyconv_weights *packed[POLYCONV_MAX_CHAIN] = {NULL};
  polyconv_plan_info info;
  int32_t i;
  int good = polyconv_plan_create(NULL, problems, length, options, &plan) == POLYCONV_SUCCESS;
  info.struct_size = sizeof info;
  good = good && polyconv_plan_get_info(plan, &info) == POLYCONV_SUCCESS;
  for (i = 0; good && i < length; ++i) {
    const char *format;
    good = polyconv_plan_weights(plan, i, &format, NULL) == POLYCONV_SUCCESS;
    if (!good || !strcmp(format, "raw")) continue;
    good = polyconv_weights_create(plan, i, buffers.weights[i], NULL, NULL, &packed[i]) == POLYCONV_SUCCESS;
    buffers.packed[i] = packed[i];
  }
  buffers.output = output;
  if (good && info.workspace_bytes > 0)
    good = polyconv_device_alloc(NULL, (size_t)info.workspace_bytes, POLYCONV_MEMORY_DEVICE, &buffers.workspace) ==
           POLYCONV_SUCCESS;
  buffers.workspace_size = good ? (size_t)info.workspace_bytes : 0;
  good = good && polyconv_buffers_check(plan, &buffers) == POLYCONV_SUCCESS;
  for (i = 0; good && i < runs; ++i) {
    const double begin = now();
    good = polyconv_run(plan, &buffers, NULL) == POLYCONV_SUCCESS;
    if (i == 0 || now() - begin < result->microseconds) result->microseconds = now() - begin;
  }
  if (good)
    snprintf(result->kernel, sizeof result->kernel, "%s", info.kernel);
  else
    fail(polyconv_last_error());
  for (i = 0; i < length; ++i) polyconv_weights_destroy(packed[i]);
  polyconv_device_free(NULL, buffers.workspace, POLYCONV_MEMORY_DEVICE);
  polyconv_plan_destroy(plan);
  return good;
}

int net_run_chain(net *n, int32_t first, int32_t length, net_result *result) {
  polyconv_problem problems[POLYCONV_MAX_CHAIN];
  polyconv_buffers buffers;
  polyconv_options options, reference;
  polyconv_tensor shape;
  int64_t bytes;
  int32_t i, last = first;
  net_result ignored;
  void *expected;
  int good;
  for (i = 1; i < length; ++i) last = n->follower[last];
  if (!describe(n, first, length, problems, &buffers)) return 0;
  if (polyconv_problem_tensor(&problems[length - 1], POLYCONV_TENSOR_OUTPUT, &shape, &bytes) != POLYCONV_SUCCESS)
    return fail(polyconv_last_error());
  polyconv_options_init(&options);
  polyconv_options_init(&reference);
  reference.kernel = "reference/*", reference.fallback = POLYCONV_FALLBACK_ALLOW, reference.grouping = "none";
  free(n->outputs[last]);
  n->outputs[last] = malloc((size_t)bytes + 1);
  expected = malloc((size_t)bytes + 1);
  good = n->outputs[last] && expected;
  if (!good) fail("no memory for a result");
  good = good && run_planned(problems, length, &options, buffers, n->outputs[last], 3, result) &&
         run_planned(problems, length, &reference, buffers, expected, 1, &ignored);
  if (good) result->agrees = compare(n->outputs[last], expected, shape.type, bytes, &result->difference);
  free(expected);
  return good;
}
