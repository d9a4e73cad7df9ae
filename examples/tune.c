/* tune.c - tunes two layers within a second, says what was found, and plans by it: what a program does once, at its
 * first start on a machine. Ctrl-C in the middle loses nothing: the next start goes on.
 * SPDX-License-Identifier: Apache-2.0 */
#include <polyconv/polyconv.h>

#include <stdio.h>

// part tune
static int32_t tell(void *context, const polyconv_tune_progress *now) {
  (void)context;
  if (now->finished)
    printf("%s: %s, %.1f us (%d timed, %d known)\n", now->token, now->kernel[0] ? now->kernel : now->reason, now->us,
           now->timed, now->known);
  return 0; /* anything else stops, and keeps what was timed */
}

static polyconv_status tune(const polyconv_problem *layers, int32_t count) {
  const int64_t budget_ms = 1000; /* for all layers together */
  return polyconv_tune(NULL, layers, count, NULL, budget_ms, tell, NULL);
}
// end tune

int main(void) {
  polyconv_problem layers[2];
  polyconv_plan *plan = NULL;
  polyconv_plan_info info = {0};
  info.struct_size = sizeof info;
  if (polyconv_problem_parse("fwd:n1,c16,k32,i28x28,f3x3,p1", &layers[0]) != POLYCONV_SUCCESS ||
      polyconv_problem_parse("fwd:n1,c32,k16,i28x28,f1x1", &layers[1]) != POLYCONV_SUCCESS ||
      tune(layers, 2) != POLYCONV_SUCCESS ||
      polyconv_plan_create(NULL, &layers[0], 1, NULL, &plan) != POLYCONV_SUCCESS ||
      polyconv_plan_get_info(plan, &info) != POLYCONV_SUCCESS) {
    fprintf(stderr, "%s\n", polyconv_last_error());
    return 1;
  }
  printf("planned on %s, %s\n", info.kernel, info.measured_on[0] ? info.measured_on : "estimated");
  polyconv_plan_destroy(plan);
  return 0;
}
