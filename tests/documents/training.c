/* training.c - the example of docs/training.md: the three plans of one layer, planned and run.
 * SPDX-License-Identifier: Apache-2.0 */
#include <polyconv/polyconv.h>
#include <stdio.h>
#include <stdlib.h>

/* The tensor `which` of a problem, all ones (f32). */
static float *ones(const polyconv_problem *problem, int32_t which) {
  int64_t bytes = 0;
  if (polyconv_problem_tensor(problem, which, NULL, &bytes)) return NULL;
  float *values = malloc((size_t)bytes);
  for (int64_t i = 0; values && i < bytes / 4; ++i) values[i] = 1;
  return values;
}

/* Packs the weights where the plan wants them packed, takes a workspace, and runs. */
static polyconv_status run(const polyconv_plan *plan, polyconv_buffers buffers, int reads_weights) {
  polyconv_plan_info info = {0};
  polyconv_weights *packed = NULL;
  polyconv_status status;
  info.struct_size = sizeof info;
  status = polyconv_plan_get_info(plan, &info);
  if (!status && reads_weights) status = polyconv_weights_create(plan, 0, buffers.weights[0], NULL, NULL, &packed);
  buffers.packed[0] = packed;
  buffers.workspace_size = (size_t)info.workspace_bytes;
  if (!status) status = polyconv_device_alloc(NULL, buffers.workspace_size, POLYCONV_MEMORY_DEVICE, &buffers.workspace);
  if (!status) status = polyconv_run(plan, &buffers, NULL);
  polyconv_device_free(NULL, buffers.workspace, POLYCONV_MEMORY_DEVICE);
  polyconv_weights_destroy(packed);
  return status;
}

int main(void) {
  const polyconv_device *device = NULL;
  polyconv_problem problem;
  polyconv_options options;
  polyconv_plan *forward = NULL, *weights = NULL, *data = NULL;
  polyconv_options_init(&options);
  // part plans
  polyconv_problem_parse("fwd:n128,c6,k16,i14x14,f5x5:bias+relu+maxpool2", &problem);
  options.save = POLYCONV_SAVE_PRE_ACTIVATION;    /* what `saved` holds, in every direction */
  options.dynamic_weights = POLYCONV_WEIGHTS_NEW; /* in every run: what can read them raw does */
  polyconv_plan_create(device, &problem, 1, &options, &forward);
  problem.direction = POLYCONV_BACKWARD_WEIGHTS;
  polyconv_plan_create(device, &problem, 1, &options, &weights);
  problem.direction = POLYCONV_BACKWARD_DATA;
  problem.epilogue.has_bias = 0; /* a sum's gradient does not depend on the bias */
  polyconv_plan_create(device, &problem, 1, &options, &data);
  // end plans
  if (!forward || !weights || !data) return puts(polyconv_last_error()), 1;

  polyconv_buffers buffers;
  polyconv_buffers_init(&buffers);
  problem.direction = POLYCONV_FORWARD;
  problem.epilogue.has_bias = 1;
  float *input = ones(&problem, POLYCONV_TENSOR_INPUT), *output = ones(&problem, POLYCONV_TENSOR_OUTPUT);
  float *raw = ones(&problem, POLYCONV_TENSOR_WEIGHTS), *bias = ones(&problem, POLYCONV_TENSOR_BIAS);
  float *saved = ones(&problem, POLYCONV_TENSOR_PRE_ACTIVATION);
  if (!input || !output || !raw || !bias || !saved) return puts("no memory"), 1;
  buffers.input = input, buffers.output = output, buffers.weights[0] = raw, buffers.bias[0] = bias;
  buffers.saved[0] = saved;
  if (run(forward, buffers, 1)) return puts(polyconv_last_error()), 1;
  if (output[0] != 6 * 25 + 1 || saved[0] != 6 * 25 + 1) return printf("output %g, saved %g\n", output[0], saved[0]), 1;

  for (int64_t i = 0; i < 128 * 16 * 25; ++i)
    output[i] = 1; /* from here on the gradient of the output: one for each window */
  if (run(data, buffers, 1)) return puts(polyconv_last_error()), 1;
  /* The first of four equals is the maximum: the corner of the input reached the corner of the output alone. */
  if (input[0] != 16) return printf("input's gradient %g\n", input[0]), 1;
  for (int64_t i = 0; i < 128 * 6 * 14 * 14; ++i) input[i] = 1;
  if (run(weights, buffers, 0)) return puts(polyconv_last_error()), 1;
  if (raw[0] != 128 * 25 || bias[0] != 128 * 25) return printf("weights' gradient %g, bias's %g\n", raw[0], bias[0]), 1;

  polyconv_plan_destroy(forward), polyconv_plan_destroy(weights), polyconv_plan_destroy(data);
  free(input), free(output), free(raw), free(bias), free(saved);
  return 0;
}
