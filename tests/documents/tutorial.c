/* tutorial.c - the first half of docs/tutorial.md in C: one layer at once, then planned once and run often.
 * SPDX-License-Identifier: Apache-2.0 */
#include <polyconv/polyconv.h>
#include <stdio.h>

static float input[3 * 32 * 32], weights[8 * 3 * 3 * 3], bias[8], output[8 * 32 * 32];

// part once
static int once(void) {
  polyconv_problem layer;
  polyconv_buffers buffers;
  polyconv_buffers_init(&buffers);
  buffers.input = input, buffers.weights[0] = weights, buffers.bias[0] = bias, buffers.output = output;
  if (polyconv_problem_parse("fwd:n1,c3,k8,i32x32,f3x3,p1:bias+relu", &layer) ||
      polyconv_convolve(NULL, &layer, 1, NULL, &buffers)) {
    fprintf(stderr, "%s\n", polyconv_last_error()); /* the field, its value, and what was expected */
    return 1;
  }
  return 0;
}
// end once

// part often
static int often(int images) {
  polyconv_problem layer;
  polyconv_plan *plan = NULL;
  polyconv_weights *packed = NULL;
  polyconv_plan_info info = {.struct_size = sizeof info};
  polyconv_buffers buffers;
  polyconv_buffers_init(&buffers);
  int failed = polyconv_problem_parse("fwd:n1,c3,k8,i32x32,f3x3,p1:bias+relu", &layer) || /* describe */
               polyconv_plan_create(NULL, &layer, 1, NULL, &plan) ||                      /* plan */
               polyconv_weights_create(plan, 0, weights, NULL, NULL, &packed) ||          /* prepare */
               polyconv_plan_get_info(plan, &info) ||
               polyconv_device_alloc(NULL, (size_t)info.workspace_bytes, POLYCONV_MEMORY_DEVICE, &buffers.workspace);
  buffers.workspace_size = (size_t)info.workspace_bytes;
  buffers.input = input, buffers.packed[0] = packed, buffers.bias[0] = bias, buffers.output = output;
  for (int i = 0; i < images && !failed; ++i) { /* the next image into input, and then */
    failed = polyconv_run(plan, &buffers, NULL);
  }
  if (failed) fprintf(stderr, "%s\n", polyconv_last_error());
  polyconv_device_free(NULL, buffers.workspace, POLYCONV_MEMORY_DEVICE);
  polyconv_weights_destroy(packed);
  polyconv_plan_destroy(plan);
  return failed;
}
// end often

/* Ones everywhere: an output counts the taps inside, over three channels. */
static int right(void) {
  for (int h = 0; h < 32; ++h)
    for (int w = 0; w < 32; ++w)
      if (output[h * 32 + w] != 3.0f * (float)((h % 31 ? 3 : 2) * (w % 31 ? 3 : 2)) + 1) return 0;
  return 1;
}

int main(void) {
  for (int i = 0; i < 3 * 32 * 32; ++i) input[i] = 1;
  for (int i = 0; i < 8 * 27; ++i) weights[i] = 1;
  for (int i = 0; i < 8; ++i) bias[i] = 1;
  if (once() || !right()) return 1;
  for (int i = 0; i < 8 * 32 * 32; ++i) output[i] = -1;
  return often(3) || !right();
}
