#include <polyconv/polyconv.h>
#include <stdio.h>

int main(void) {
  float image[25] = {0}, blur[9] = {1, 2, 1, 2, 4, 2, 1, 2, 1}, result[25];
  polyconv_problem problem;
  polyconv_buffers buffers;
  polyconv_buffers_init(&buffers);
  buffers.input = image, buffers.weights[0] = blur, buffers.output = result;
  image[12] = 1;
  if (polyconv_problem_parse("fwd:i5x5,f3x3,p1", &problem) || polyconv_convolve(NULL, &problem, 1, NULL, &buffers))
    return puts(polyconv_last_error()), 1;
  for (int i = 0; i < 25; ++i) printf("%g%c", result[i], i % 5 == 4 ? '\n' : ' ');
}
