/* polyconv_onnx_reader.h - the convolutions of an ONNX file, as problems of polyconv.
 *
 * A small library beside polyconv, linked statically: no protobuf, no ONNX. It reads the graph of a file and the bodies
 * of If, Loop and Scan in it, infers the shapes between convolutions, and gives each Conv, ConvTranspose, ConvInteger,
 * QLinearConv and com.microsoft FusedConv as a layer: a problem with the weights, the residual and the activation that
 * follow it, and which other layer it reads. From C or C++:
 *
 *   polyconv_onnx_size batch = {"N", -1, 1};
 *   polyconv_onnx_model *model;
 *   if (polyconv_onnx_read("model.onnx", &batch, 1, &model)) return puts(polyconv_onnx_error()), 1;
 *   for (int32_t i = 0; i < polyconv_onnx_layer_count(model); ++i) polyconv_onnx_layer_at(model, i)->problem …
 *   polyconv_onnx_free(model);
 *
 * Any function may be called from any thread; a model is immutable. Nothing is thrown, printed or kept open.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef POLYCONV_ONNX_READER_H
#define POLYCONV_ONNX_READER_H

#include <polyconv/polyconv.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct polyconv_onnx_model polyconv_onnx_model;

/* A size that the file leaves open. axis -1: of the dimension that the file calls `name`, wherever it stands; axis >=
 * 0: of this axis of the model's input `name`, also where the file has another size. size >= 0. */
typedef struct polyconv_onnx_size {
  const char *name;
  int32_t axis;
  int64_t size;
} polyconv_onnx_size;

/* One convolution. Everything lives as long as the model; texts are never NULL, "" where there is nothing to say. */
typedef struct polyconv_onnx_layer {
  const char *name;   /* of the node, or of what it writes where it has none */
  const char *within; /* "" in the main graph; else the nodes and attributes whose body it lies in, from the outermost:
                         "loop/body", "loop/body/if/then_branch" */
  const char *operation; /* "Conv", "com.microsoft:FusedConv" */
  const char *reason;    /* "" where `problem` is there; else why not: an unknown size, a type that polyconv lacks */

  polyconv_problem problem; /* valid, channels first. Its epilogue has the bias, the scales of quantised layers, and of
                               what follows, where nobody else reads what lies between: an Add of a tensor of the same
                               shape (the residual, from a buffer), then Relu, Clip from 0, LeakyRelu, Elu, Sigmoid,
                               Tanh or HardSwish */
  const char *input, *output; /* the tensor that is read, and the one written by the last node of the epilogue */
  const char *residual;       /* the tensor that is added, "" for none */
  int32_t input_layer;        /* the layer of the same graph whose output `input` is, -1 for none: other operators lie
                                 between, or it comes from the graph around a body */
  int32_t residual_layer;     /* likewise for `residual` */

  /* The buffers of `problem`, dense; NULL for what it does not have, or the file does not: weights that are computed or
   * lie in a file of their own. */
  const void *weights, *bias;
  const float *scale;
  const void *weights_zero_point;
} polyconv_onnx_layer;

/* Reads a file, of at most 2 GiB, or the same bytes from memory, which may go afterwards. `sizes` has `count` entries,
 * and may be NULL for 0. Succeeds for every well-formed model, also where no layer has a problem. Errors, with a
 * sentence in polyconv_onnx_error: IO_ERROR for a file that cannot be read or is malformed; INVALID_ARGUMENT for NULL,
 * or a size that is negative or names what the model does not have; OUT_OF_MEMORY. *model is written on success alone.
 */
polyconv_status polyconv_onnx_read(const char *path, const polyconv_onnx_size *sizes, int32_t count,
                                   polyconv_onnx_model **model);
polyconv_status polyconv_onnx_read_memory(const void *bytes, size_t size, const polyconv_onnx_size *sizes,
                                          int32_t count, polyconv_onnx_model **model);

/* Frees a model; NULL is ignored. */
void polyconv_onnx_free(polyconv_onnx_model *model);

/* The layers, in the order of the file, in which a layer comes after those that it reads; NULL beyond the last. */
int32_t polyconv_onnx_layer_count(const polyconv_onnx_model *model);
const polyconv_onnx_layer *polyconv_onnx_layer_at(const polyconv_onnx_model *model, int32_t index);

/* One sentence about the last call on this thread that failed; "" before the first. Valid until the next one. */
const char *polyconv_onnx_error(void);

#ifdef __cplusplus
}
#endif
#endif /* POLYCONV_ONNX_READER_H */
