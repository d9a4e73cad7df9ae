/* net.h - the layers of a model, the tensors between them, and the run of one chain of layers.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef ONNX_NET_NET_H
#define ONNX_NET_NET_H

#include <polyconv_onnx_reader.h>

typedef struct net net;

typedef struct net_result {
  double microseconds; /* the quickest of a few runs */
  double difference;   /* largest difference from the reference, over the largest result */
  int agrees;
  char kernel[256];
} net_result;

/* NULL: no memory. The model must outlive it. */
net *net_create(const polyconv_onnx_model *model);
void net_destroy(net *n);

/* How many layers, from `first` on, form a chain, each read by the next and by nobody else; 0: `first` is inside a
 * chain that begins before it. The layers of a chain are found from `first` by who reads whom. */
int32_t net_chain_length(const net *n, int32_t first);

/* Plans the chain, packs its weights, runs it on the tensors that chains before have written, and compares. 0: failed,
 * and net_error says why. */
int net_run_chain(net *n, int32_t first, int32_t length, net_result *result);
const char *net_error(void);

#endif /* ONNX_NET_NET_H */
