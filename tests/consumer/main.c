/* main.c - what every consumer builds: one convolution through the installed header and library, checked by hand.
 * SPDX-License-Identifier: Apache-2.0 */
#include <polyconv/polyconv.h>
#include <stdio.h>

int main(void) {
  float input[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, weights[4] = {1, 0, 0, 1}, output[4] = {0};
  const float expected[4] = {6, 8, 12, 14};
  polyconv_problem problem;
  polyconv_buffers buffers;
  polyconv_buffers_init(&buffers);
  buffers.input = input;
  buffers.weights[0] = weights;
  buffers.output = output;
  if (polyconv_problem_parse("fwd:i3x3,f2x2", &problem) != POLYCONV_SUCCESS ||
      polyconv_convolve(NULL, &problem, 1, NULL, &buffers) != POLYCONV_SUCCESS) {
    printf("%s\n", polyconv_last_error());
    return 1;
  }
  for (int i = 0; i < 4; ++i)
    if (output[i] != expected[i]) {
      printf("output[%d] is %g; expected %g\n", i, output[i], expected[i]);
      return 1;
    }
  printf("polyconv %s with %d backends: right\n", polyconv_version(), (int)polyconv_backend_count());
  return 0;
}
