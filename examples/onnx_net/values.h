/* values.h - random tensors, and how far two are apart, for every element type.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef ONNX_NET_VALUES_H
#define ONNX_NET_VALUES_H

#include <polyconv/polyconv.h>

/* Numbers between -1 and 1, or any integers of 8 bits; the same for the same seed. */
void fill_randomly(void *data, int32_t type, int64_t bytes, uint32_t seed);

/* Whether two tensors are the same but for rounding: integers to the last bit. *difference is the largest over the
 * largest expected number. */
int compare(const void *data, const void *expected, int32_t type, int64_t bytes, double *difference);

#endif /* ONNX_NET_VALUES_H */
