/* onnx_net - the convolutional part of an ONNX file inside a C program, start to end: read, plan, pack, run, compare.
 *
 *   onnx_net model.onnx [SIZE...]        N=1: the dimension that the file calls N; x:2=224: axis 2 of its input x
 *
 * Layers that read each other become chains, of which the library fuses what is faster so. Whatever lies between chains
 * in the model is not here: what a chain reads that no layer wrote is filled with random numbers. Each chain runs
 * twice, as planned and layer by layer on the kernels of `reference`, and the results are compared. Exit status 0: all
 * agree; 1: not; 2: wrong usage, or nothing to run.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "N=1" or "x:2=224". The text is cut in place. */
static int read_size(char *text, polyconv_onnx_size *size) {
  char *equals = strchr(text, '='), *end, *colon;
  if (!equals || equals == text) return 0;
  *equals = '\0';
  size->size = strtoll(equals + 1, &end, 10);
  if (end == equals + 1 || *end || size->size < 0) return 0;
  size->name = text, size->axis = -1;
  colon = strrchr(text, ':');
  if (!colon || colon[1] < '0' || colon[1] > '9') return 1;
  size->axis = (int32_t)strtol(colon + 1, &end, 10);
  if (*end) return size->axis = -1, 1; /* a name with a colon */
  *colon = '\0';
  return 1;
}

static int run(const polyconv_onnx_model *model) {
  const int32_t count = polyconv_onnx_layer_count(model);
  int32_t first, length, chains = 0, wrong = 0, ran = 0;
  double sum = 0;
  net *n = net_create(model);
  if (!n) return puts("onnx_net: no memory"), 2;
  for (first = 0; first < count; ++first) {
    const polyconv_onnx_layer *layer = polyconv_onnx_layer_at(model, first);
    net_result result;
    if (*layer->reason) {
      printf("%s left out: %s\n", layer->name, layer->reason);
      continue;
    }
    length = net_chain_length(n, first);
    if (length == 0) continue; /* inside a chain that began before */
    if (!net_run_chain(n, first, length, &result)) {
      fprintf(stderr, "onnx_net: %s: %s\n", layer->name, net_error());
      return net_destroy(n), 1;
    }
    printf("%-40s %d layer%s %10.1f us   difference %.1e %s   %s\n", layer->name, (int)length, length == 1 ? " " : "s",
           result.microseconds, result.difference, result.agrees ? "good " : "WRONG", result.kernel);
    ++chains, ran += length, wrong += !result.agrees, sum += result.microseconds;
  }
  net_destroy(n);
  printf("%d of %d layers in %d chains, %.1f us, %d wrong\n", (int)ran, (int)count, (int)chains, sum, (int)wrong);
  return wrong > 0 ? 1 : ran > 0 ? 0 : 2;
}

int main(int argc, char **argv) {
  polyconv_onnx_model *model = NULL;
  polyconv_onnx_size *sizes;
  int i, status;
  if (argc < 2) return fputs("usage: onnx_net MODEL.onnx [NAME=SIZE | INPUT:AXIS=SIZE ...]\n", stderr), 2;
  sizes = malloc((size_t)argc * sizeof *sizes);
  if (!sizes) return 2;
  for (i = 2; i < argc; ++i)
    if (!read_size(argv[i], &sizes[i - 2])) {
      fprintf(stderr, "onnx_net: \"%s\" is no size, expected NAME=SIZE or INPUT:AXIS=SIZE\n", argv[i]);
      return free(sizes), 2;
    }
  status = polyconv_onnx_read(argv[1], sizes, argc - 2, &model);
  free(sizes);
  if (status != POLYCONV_SUCCESS) return fprintf(stderr, "onnx_net: %s\n", polyconv_onnx_error()), 2;
  status = run(model);
  polyconv_onnx_free(model);
  return status;
}
