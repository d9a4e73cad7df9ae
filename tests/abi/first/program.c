/* program.c - a program of the day of the first release: it is compiled with that day's polyconv.h (beside it, frozen)
 * and run with today's library. It calls every function, lies about nothing, and keeps a guard behind every struct that
 * the library fills: what is written beyond the struct's first size would have been somebody's memory.
 * SPDX-License-Identifier: Apache-2.0 */
#include <polyconv/polyconv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(_WIN32) /* Windows has no aligned_alloc of C11's: its own wants a free of its own */
#include <malloc.h>
#define aligned_alloc(alignment, size) _aligned_malloc(size, alignment)
#define free(pointer) _aligned_free(pointer)
#endif

static int failures = 0;

#define CHECK(condition) ((condition) ? (void)0 : complain(__LINE__, #condition))
#define OK(call) ((call) == POLYCONV_SUCCESS ? (void)0 : complain(__LINE__, polyconv_last_error()))

static void complain(int line, const char *what) {
  printf("line %d: %s\n", line, what);
  ++failures;
}

/* A struct and its guard. */
#define GUARDED(type, name)   \
  struct {                    \
    type it;                  \
    unsigned char guard[512]; \
  } name;                     \
  memset(&name, 0x5a, sizeof name)
#define UNTOUCHED(name) untouched(name.guard, __LINE__)

static void untouched(const unsigned char *guard, int line) {
  for (int i = 0; i < 512; ++i)
    if (guard[i] != 0x5a) {
      printf("line %d: the library wrote %d bytes behind the struct\n", line, i);
      ++failures;
      return;
    }
}

static void listen(void *context, int32_t level, const char *message) {
  (void)level, (void)message;
  ++*(int *)context;
}

static void serial(void *context, int64_t tasks, void (*task)(void *, int64_t), void *task_context) {
  ++*(int *)context;
  for (int64_t i = 0; i < tasks; ++i) task(task_context, i);
}

static void *take(void *context, size_t bytes, size_t alignment) {
  ++*(int *)context;
  return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}
static void give(void *context, void *pointer) {
  --*(int *)context;
  free(pointer);
}

static void observe(void *context, int32_t step, const char *kernel, void *stream) {
  (void)step, (void)kernel, (void)stream;
  ++*(int *)context;
}

static void problems(void) {
  GUARDED(polyconv_problem, problem);
  polyconv_problem_init(&problem.it);
  UNTOUCHED(problem);
  CHECK(problem.it.struct_size == sizeof problem.it && problem.it.epilogue.out_scale == 1);
  OK(polyconv_problem_parse("fwd:n2,c4,k6,g2,i9x8,f3x2,s2,p1,d1:bias+relu+maxpool2", &problem.it));
  UNTOUCHED(problem);
  CHECK(problem.it.struct_size == sizeof problem.it && problem.it.groups == 2 &&
        problem.it.epilogue.pool.window[0] == 2);
  OK(polyconv_problem_validate(&problem.it, 1));
  char token[200];
  size_t needed = 0;
  OK(polyconv_problem_format(&problem.it, token, sizeof token, &needed));
  CHECK(strcmp(token, "fwd:n2,c4,k6,g2,i9x8,f3x2,s2,p1:bias+relu+maxpool2") == 0 && needed == strlen(token) + 1);
  GUARDED(polyconv_tensor, tensor);
  int64_t bytes = 0;
  OK(polyconv_problem_tensor(&problem.it, POLYCONV_TENSOR_WEIGHTS, &tensor.it, &bytes));
  UNTOUCHED(tensor);
  CHECK(bytes == 6 * 2 * 6 * 4 && tensor.it.size[0] == 6 && tensor.it.size[1] == 2 && tensor.it.size[4] == 2);
  double flops = 0;
  OK(polyconv_problem_flops(&problem.it, &flops));
  CHECK(flops > 0);
  CHECK(polyconv_type_size(POLYCONV_BF16) == 2 && strcmp(polyconv_type_name(POLYCONV_U16), "u16") == 0);
  problem.it.stride[0] = -1;
  CHECK(polyconv_problem_validate(&problem.it, 1) == POLYCONV_INVALID_ARGUMENT);
  CHECK(strstr(polyconv_last_error(), "stride") != NULL);
  CHECK(strcmp(polyconv_status_string(POLYCONV_INVALID_ARGUMENT), "invalid argument") == 0);
}

static void machine(void) {
  CHECK(polyconv_version()[0] != '\0');
  CHECK(polyconv_backend_count() >= 1);
  GUARDED(polyconv_backend_info, backend);
  backend.it.struct_size = sizeof backend.it;
  OK(polyconv_backend_get(0, &backend.it));
  UNTOUCHED(backend);
  CHECK(backend.it.name && backend.it.reason && backend.it.kernel_count >= 1);
  CHECK(polyconv_backend_kernel(0, 0) && polyconv_backend_config(0, 0, 0) && !polyconv_backend_kernel(0, 1 << 20));
  CHECK(polyconv_backend_load("relative.so") == POLYCONV_INVALID_ARGUMENT);
  const polyconv_device *device = NULL;
  OK(polyconv_device_find("cpu", &device));
  CHECK(polyconv_device_count() >= 1 && strcmp(polyconv_device_name(0), "cpu") == 0);
  GUARDED(polyconv_device_properties, properties);
  properties.it.struct_size = sizeof properties.it;
  OK(polyconv_device_get_properties(device, &properties.it));
  UNTOUCHED(properties);
  CHECK(properties.it.compute_units >= 1);
  void *memory = NULL, *stream = NULL, *event = NULL, *stop = NULL, *graph = NULL;
  unsigned char byte = 0;
  int32_t kind = -1;
  double elapsed = -1;
  OK(polyconv_device_alloc(device, 1000, POLYCONV_MEMORY_PINNED, &memory));
  OK(polyconv_device_fill(device, memory, 7, 1000, NULL));
  OK(polyconv_device_copy(device, &byte, (char *)memory + 999, 1, NULL));
  OK(polyconv_device_pointer_kind(device, memory, &kind));
  OK(polyconv_device_free(device, memory, POLYCONV_MEMORY_PINNED));
  CHECK(byte == 7 && kind >= 0);
  OK(polyconv_stream_create(device, &stream));
  OK(polyconv_event_create(device, &event));
  OK(polyconv_event_create(device, &stop));
  OK(polyconv_event_record(device, event, stream));
  OK(polyconv_event_record(device, stop, stream));
  OK(polyconv_stream_wait(device, stream, event));
  OK(polyconv_stream_synchronize(device, stream));
  OK(polyconv_event_synchronize(device, stop));
  OK(polyconv_event_elapsed(device, event, stop, &elapsed));
  OK(polyconv_event_destroy(device, event));
  OK(polyconv_event_destroy(device, stop));
  OK(polyconv_stream_destroy(device, stream));
  CHECK(elapsed >= 0);
  CHECK(polyconv_graph_begin(device, NULL) == POLYCONV_UNSUPPORTED);
  CHECK(polyconv_graph_end(device, NULL, &graph) != POLYCONV_SUCCESS);
  CHECK(polyconv_graph_launch(device, NULL, NULL) != POLYCONV_SUCCESS);
  (void)polyconv_graph_destroy(device, NULL);
}

/* Two layers of 2 x 2 boxes over a 5 x 5 plane of ones, with everything that options offered. */
static void chain(void) {
  polyconv_problem layers[2]; /* an array: its step is the first release's size */
  OK(polyconv_problem_parse("fwd:i5x5,f2x2:bias", &layers[0]));
  OK(polyconv_problem_parse("fwd:i4x4,f2x2", &layers[1]));
  OK(polyconv_problem_validate(layers, 2));
  int tasks = 0, blocks = 0, seen = 0;
  GUARDED(polyconv_options, options);
  polyconv_options_init(&options.it);
  UNTOUCHED(options);
  CHECK(options.it.struct_size == sizeof options.it);
  options.it.kernel = "*";
  options.it.fallback = POLYCONV_FALLBACK_ALLOW;
  options.it.threads = 2;
  options.it.checked = 1;
  options.it.bind = 1;
  options.it.dynamic_weights = 1;
  options.it.parallel_for = serial;
  options.it.parallel_for_context = &tasks;
  options.it.allocator.allocate = take;
  options.it.allocator.release = give;
  options.it.allocator.context = &blocks;
  options.it.observer = observe;
  options.it.observer_context = &seen;
  options.it.grouping = "none";
  polyconv_plan *plan = NULL;
  OK(polyconv_plan_create(NULL, layers, 2, &options.it, &plan));
  GUARDED(polyconv_plan_info, info);
  info.it.struct_size = sizeof info.it;
  OK(polyconv_plan_get_info(plan, &info.it));
  UNTOUCHED(info);
  CHECK(info.it.kernel && info.it.step_count >= 2 && info.it.workspace_bytes > 0 && info.it.threads == 2);

  float input[25], box[4] = {1, 1, 1, 1}, double_box[4] = {2, 2, 2, 2}, bias[1] = {1}, output[9];
  for (int i = 0; i < 25; ++i) input[i] = 1;
  polyconv_weights *weights[2] = {NULL, NULL}, *loaded = NULL;
  const char *format = NULL;
  int64_t bytes = 0;
  OK(polyconv_plan_weights(plan, 0, &format, &bytes));
  CHECK(format && bytes >= 16);
  OK(polyconv_weights_create(plan, 0, box, NULL, NULL, &weights[0]));
  OK(polyconv_weights_create(plan, 1, double_box, NULL, NULL, &weights[1]));
  OK(polyconv_weights_update(weights[1], box, NULL));
  OK(polyconv_weights_save(weights[0], "abi_first.weights"));
  OK(polyconv_weights_load(plan, 0, "abi_first.weights", NULL, NULL, &loaded));
  remove("abi_first.weights");

  GUARDED(polyconv_buffers, buffers);
  polyconv_buffers_init(&buffers.it);
  UNTOUCHED(buffers);
  buffers.it.input = input, buffers.it.output = output, buffers.it.bias[0] = bias;
  buffers.it.packed[0] = loaded, buffers.it.packed[1] = weights[1];
  buffers.it.workspace_size = (size_t)info.it.workspace_bytes;
  OK(polyconv_device_alloc(NULL, buffers.it.workspace_size, POLYCONV_MEMORY_DEVICE, &buffers.it.workspace));
  OK(polyconv_buffers_check(plan, &buffers.it));
  for (int way = 0; way < 2; ++way) {
    memset(output, 0, sizeof output);
    if (way == 0) {
      OK(polyconv_run(plan, &buffers.it, NULL));
    } else {
      polyconv_bound *bound = NULL;
      OK(polyconv_bind(plan, &buffers.it, &bound));
      OK(polyconv_run_bound(bound, NULL));
      polyconv_bound_destroy(bound);
    }
    for (int i = 0; i < 9; ++i) CHECK(output[i] == 20);
  }
  CHECK(seen >= 2 && blocks >= 0);
  polyconv_weights_destroy(weights[0]), polyconv_weights_destroy(weights[1]), polyconv_weights_destroy(loaded);
  OK(polyconv_device_free(NULL, buffers.it.workspace, POLYCONV_MEMORY_DEVICE));
  polyconv_plan_destroy(plan);
  CHECK(blocks == 0);

  buffers.it.weights[0] = box, buffers.it.weights[1] = box;
  memset(output, 0, sizeof output);
  OK(polyconv_convolve(NULL, layers, 2, NULL, &buffers.it));
  for (int i = 0; i < 9; ++i) CHECK(output[i] == 20);
  UNTOUCHED(options), UNTOUCHED(buffers);

  polyconv_explanation *explanation = NULL;
  OK(polyconv_explain(NULL, layers, 1, NULL, &explanation));
  CHECK(polyconv_explanation_text(explanation)[0] != '\0' && polyconv_explanation_count(explanation) >= 1);
  GUARDED(polyconv_candidate, candidate);
  candidate.it.struct_size = sizeof candidate.it;
  OK(polyconv_explanation_get(explanation, 0, &candidate.it));
  UNTOUCHED(candidate);
  CHECK(candidate.it.kernel && candidate.it.accepted == 1);
  polyconv_explanation_destroy(explanation);
}

int main(void) {
  int lines = 0;
  polyconv_set_log(listen, &lines, POLYCONV_LOG_DEBUG);
  problems();
  machine();
  chain();
  polyconv_set_log(NULL, NULL, POLYCONV_LOG_ERROR);
  CHECK(lines > 0);
  if (failures == 0) printf("a program of the first release runs with polyconv %s\n", polyconv_version());
  return failures != 0;
}
