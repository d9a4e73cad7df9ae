/* cache.c - images of ever other sizes through one layer: a plan a size, made once and kept as long as 64 MiB hold
 * them all.
 * SPDX-License-Identifier: Apache-2.0 */
#include <polyconv/polyconv.h>

#include <stdio.h>
#include <stdlib.h>

#if defined(_WIN32) /* Windows has no aligned_alloc of C11's: its own wants a free of its own */
#include <malloc.h>
#define aligned_alloc(alignment, size) _aligned_malloc(size, alignment)
#define free(pointer) _aligned_free(pointer)
#endif

// part blur
/* Blurs one grey image of any size; `output` has (height - 2) * (width - 2) places. */
static polyconv_status blur(polyconv_cache *cache, int64_t height, int64_t width, const float *image, float *output) {
  static const float ninth[9] = {1 / 9.f, 1 / 9.f, 1 / 9.f, 1 / 9.f, 1 / 9.f, 1 / 9.f, 1 / 9.f, 1 / 9.f, 1 / 9.f};
  const polyconv_plan *plan = NULL;
  polyconv_weights *weights = NULL;
  polyconv_plan_info info = {0};
  polyconv_buffers buffers;
  polyconv_problem problem;
  polyconv_status status;
  polyconv_problem_init(&problem);
  problem.spatial_dims = 2;
  problem.input_size[0] = height;
  problem.input_size[1] = width;
  problem.kernel_size[0] = problem.kernel_size[1] = 3;
  status = polyconv_cache_get(cache, &problem, 1, &plan); /* planned at the first image of a size, then found */
  if (status != POLYCONV_SUCCESS) return status;
  info.struct_size = sizeof info;
  polyconv_plan_get_info(plan, &info);
  polyconv_buffers_init(&buffers);
  buffers.input = (void *)image;
  buffers.output = output;
  buffers.workspace_size = (info.workspace_bytes / POLYCONV_ALIGNMENT + 1) * POLYCONV_ALIGNMENT;
  buffers.workspace = aligned_alloc(POLYCONV_ALIGNMENT, (size_t)buffers.workspace_size);
  status = polyconv_weights_create(plan, 0, ninth, NULL, NULL, &weights);
  buffers.packed[0] = weights;
  if (status == POLYCONV_SUCCESS) status = polyconv_run(plan, &buffers, NULL);
  polyconv_weights_destroy(weights);
  free(buffers.workspace);
  polyconv_cache_release(cache, plan);
  return status;
}
// end blur

int main(void) {
  polyconv_cache *cache = NULL;
  polyconv_cache_stats stats = {0};
  float image[64 * 64], output[64 * 64];
  int i;
  for (i = 0; i < 64 * 64; ++i) image[i] = 9;
  if (polyconv_cache_create(NULL, NULL, (int64_t)64 << 20, &cache) != POLYCONV_SUCCESS) return 1;
  for (i = 0; i < 300; ++i) {
    const int64_t height = 8 + i % 5, width = 8 + i % 7;
    if (blur(cache, height, width, image, output) != POLYCONV_SUCCESS || output[0] < 8.99f || output[0] > 9.01f) {
      fprintf(stderr, "%s\n", polyconv_last_error());
      polyconv_cache_destroy(cache);
      return 1;
    }
  }
  stats.struct_size = sizeof stats;
  polyconv_cache_get_stats(cache, &stats);
  printf("%d plans, %d hits, %d misses\n", (int)stats.plans, (int)stats.hits, (int)stats.misses);
  polyconv_cache_destroy(cache);
  return 0;
}
