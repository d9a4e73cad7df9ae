/* backend.h - what a backend and libpolyconv say to each other: the plug-in ABI, version 1.
 *
 * A backend is a shared library libpolyconv_<name>.so with one exported symbol, polyconv_backend_query_v1. It
 * answers with a table of kernels; the library asks each kernel about each problem and runs the one it chose.
 * Authors in C++ need not write any of this by hand: polyconv/sdk/backend.hpp fills the tables, stamps the
 * versions and turns exceptions into statuses (docs/add-a-backend.md).
 *
 * Rules
 *   - Everything here is C, and only grows at the end: tables and structs begin with their size, and a reader
 *     looks at a field only if the size covers it. polyconv_tensor, polyconv_pool and polyconv_epilogue are frozen:
 *     they lie inside other structs.
 *   - The host's minor goes in and the backend's comes out, so either side may be the older one. A newer
 *     major is another symbol (_v2).
 *   - No C++ exception crosses. A function that fails calls host->set_error with one sentence, then returns
 *     a status.
 *   - The library never unloads a backend. Loading one starts no thread.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef POLYCONV_BACKEND_H
#define POLYCONV_BACKEND_H

#include <polyconv/polyconv.h>

#ifdef __cplusplus
extern "C" {
#endif

#define POLYCONV_BACKEND_ABI_MINOR 4
#define POLYCONV_REASON_SIZE 256
#define POLYCONV_NOTE_SIZE 128
#define POLYCONV_FORMAT_SIZE 48
#define POLYCONV_FORMAT_RAW "raw"

/* What the library offers to a backend. Valid for the life of the process. */
typedef struct polyconv_host {
  size_t struct_size;
  uint32_t abi_minor;
  void (*log)(int32_t level, const char *message);
  void (*set_error)(const char *message); /* the sentence behind the status about to be returned */
} polyconv_host;

/* ---------------------------------------------------------------- the normalised problem */

/* What is unusual about a layer: bits of polyconv_layer.traits. A kernel hears of a layer only if its table declares
 * (polyconv_kernel.takes) every trait that the layer has; the library rejects the others in its own words. So a kernel
 * that has not been taught a trait is safe without knowing that it exists. Numbers never change.
 *
 * Tensors of data that are read (the weights are none) may overlap themselves. OVERLAP is set where their strides do
 * not show the contrary: sorted by size, each steps over all that the smaller ones reach. Stride 0 overlaps; gaps, as
 * of a slice of channels or a part of an image, are nothing unusual. */
#define POLYCONV_TRAIT_OVERLAP (UINT64_C(1) << 0)             /* two elements may share a place, see below */
#define POLYCONV_TRAIT_NEGATIVE_STRIDE (UINT64_C(1) << 1)     /* a tensor that is read is walked backwards somewhere */
#define POLYCONV_TRAIT_EMPTY (UINT64_C(1) << 2)               /* a size other than the batch is 0 */
#define POLYCONV_TRAIT_CROPPING (UINT64_C(1) << 3)            /* pad_begin or pad_end is negative */
#define POLYCONV_TRAIT_DILATED_POOLING (UINT64_C(1) << 4)     /* pool_dilation is not 1 everywhere */
#define POLYCONV_TRAIT_CLIPPED_POOLING (UINT64_C(1) << 5)     /* pool_overhang is not 0 everywhere */
#define POLYCONV_TRAIT_ELU (UINT64_C(1) << 6)                 /* an activation newer than POLYCONV_ACT_HARD_SWISH */
#define POLYCONV_TRAIT_GELU_TANH (UINT64_C(1) << 7)           /* another */
#define POLYCONV_TRAIT_PRELU (UINT64_C(1) << 8)               /* another, with a slope for each channel */
#define POLYCONV_TRAIT_WEIGHTS_ZERO_POINTS (UINT64_C(1) << 9) /* one for each output channel */
#define POLYCONV_TRAIT_WIDE_GRADIENT (UINT64_C(1) << 10)      /* gradient of weights in f32 from f16 or bf16 */
#define POLYCONV_TRAIT_GRADIENT_SCALE (UINT64_C(1) << 11)     /* a scale in a gradient */
#define POLYCONV_TRAIT_GRADIENT_RESIDUAL (UINT64_C(1) << 12)  /* a residual in a gradient */
#define POLYCONV_TRAITS_ALL ((UINT64_C(1) << 13) - 1)         /* every one that this header knows */

/* One convolution as kernels see it: validated, three spatial axes, no variants.
 *
 *   - 1D and 2D have become 3D: leading spatial axes of size 1, kernel 1, stride 1, no padding.
 *   - A transposed problem has become its adjoint: direction BACKWARD_DATA (or FORWARD for the gradient of
 *     one) with input and output swapped. Kernels never see "transposed".
 *   - True convolution has become cross-correlation: the weights' spatial strides are negative and
 *     weights.offset points at the last tap. A kernel that reads weights by stride and offset, when packing
 *     or directly, is right without knowing.
 *   - Layouts have become strides. A tensor's pointer is that of its element 0, also where strides are negative.
 *   - Negative padding of an input that is read has become a smaller input, part of the larger one. Where the input is
 *     written, or its bias gradient wanted, it remains (POLYCONV_TRAIT_CROPPING): what is cropped off gets 0.
 *   - Pooling sizes that are rounded up have become pad_end, less than a window reaches.
 *   - The stride of an axis with one output is 1, and so is the dilation of an axis with one tap and the stride of
 *     pooling with one result; the input may then be larger than the output's size tells. Take sizes from the tensors.
 *   - Sizes are within polyconv.h's bounds (POLYCONV_MAX_ELEMENTS, POLYCONV_MAX_PRODUCTS), and a tensor's stride along
 * an axis of one element is no larger than the tensor. A kernel whose own products go further rejects in words.
 *
 * `input`, `weights` and `output` are those of the *normalised* forward convolution, whatever the direction:
 * output.size is the size before pooling. `result` is the tensor that is written: output (pooled, in its
 * size and strides) for FORWARD, input for BACKWARD_DATA (pooled likewise), weights for BACKWARD_WEIGHTS. The
 * epilogue applies to the result (activation and pooling of a gradient are a step of their own, OP_GRADIENT); with
 * bias, scale and residual per channel of the result. Where there is pooling, output.stride (input.stride for
 * BACKWARD_DATA) still describes a dense tensor before pooling, which nobody stores unless a kernel wants to. */
typedef struct polyconv_layer {
  size_t struct_size;
  int32_t direction;
  int32_t pad_mode; /* of input coordinates outside the tensor */
  double pad_value; /* PAD_CONSTANT; 0 otherwise. Quantised PAD_ZERO reads input_zero_point */
  int64_t groups;
  int64_t stride[3];
  int64_t dilation[3];
  int64_t pad_begin[3];
  int64_t pad_end[3];
  polyconv_tensor input;   /* N C D H W */
  polyconv_tensor weights; /* K C/g D R S */
  polyconv_tensor output;  /* N K D H W */
  polyconv_tensor result;
  polyconv_tensor residual; /* size of the result before pooling; only with residual_from */
  polyconv_tensor saved;    /* only with save */
  int32_t bias_type;
  int32_t sum_type;         /* F64, F32 or S32 */
  int32_t input_zero_point; /* of the tensor that is read: input for FORWARD, output for BACKWARD_DATA */
  int32_t weights_zero_point;
  int32_t separable;
  int32_t save;            /* POLYCONV_SAVE_* */
  int32_t bias_over_input; /* BACKWARD_WEIGHTS of a transposed problem: the bias gradient sums the input */
  int32_t reserved;
  polyconv_epilogue epilogue; /* pool in three axes; RESIDUAL_LAYER and RESIDUAL_INPUT as in the problem when
                                 count > 1, already RESIDUAL_BUFFER for count == 1 */
  /* Since minor 4. */
  uint64_t traits;          /* POLYCONV_TRAIT_* */
  int64_t pool_dilation[3]; /* of epilogue.pool: element t of a window lies t * pool_dilation after its first; >= 1 */
  int64_t pool_overhang[3]; /* of an average that counts padding: pad_end, enlarged so that the last window fits, counts
                               these many places at its end for nothing. 0 otherwise */
} polyconv_layer;

enum { /* what is asked for */
       POLYCONV_OP_CONVOLVE = 0,
       POLYCONV_OP_POOL = 1,    /* input (f32, f64 or s32) -> pooling, out_scale, zero point, saturation -> result */
       POLYCONV_OP_CONVERT = 2, /* input -> result: same size, other strides */
       /* Since minor 2: input, the gradient of what a float layer stored (pooled) -> result, the gradient of its sums
          (as before pooling, of the input's type), through epilogue.activation and epilogue.pool by `saved`, which is
          read: pre-activations, or the argmax of max pooling without activation. Since minor 4, each with its trait:
          what came through activation and pooling is multiplied by epilogue.residual_scale into
          arguments.residual_gradient (described by `residual`), where there is a residual and that is not NULL; summed
          over each channel into arguments.bias, where has_bias is set (only beside has_scale); and multiplied by the
          channel's scale into the result, where has_scale is set. */
       POLYCONV_OP_GRADIENT = 3
};

/* The options that concern a kernel. */
typedef struct polyconv_policy {
  size_t struct_size;
  int32_t math;
  int32_t determinism;
  int32_t threads;         /* >= 1; the size of a caller's pool is unknown, then it is the number of tasks to aim for */
  int32_t dynamic_weights; /* POLYCONV_WEIGHTS_*; 2 since minor 4 */
  int64_t workspace_limit; /* bytes, INT64_MAX for none */
  polyconv_parallel_for parallel_for; /* NULL: the backend's own threads */
  void *parallel_for_context;
  int32_t device_index; /* 0 on the CPU */
  int32_t bind;
  int64_t tuning_ms; /* since minor 1: what create may spend on choosing among implementations of its own, 0 nothing */
  int64_t shared_memory_limit; /* since minor 3: bytes of offer.shared_bytes, INT64_MAX for none */
} polyconv_policy;

typedef struct polyconv_request {
  size_t struct_size;
  int32_t op;
  int32_t count; /* of layers; more than 1 asks for a fused kernel. 1 for the other ops */
  const polyconv_layer *const *layers;
  const polyconv_policy *policy;
} polyconv_request;

/* A kernel's answer. The library sets struct_size and zeroes the rest. */
typedef struct polyconv_offer {
  size_t struct_size;
  int32_t config;          /* the config this answer is about */
  int32_t wants_layout;    /* when rejected: 1 + POLYCONV_CHANNELS_* if dense tensors in that layout would be
                              taken, so that the plan may convert; else 0 */
  int32_t rejects_pooling; /* when rejected: 1 if the same problem without pooling would be taken */
  int32_t math;            /* the mode really entered */
  double estimate_us;      /* > 0 */
  int64_t workspace_bytes;
  int64_t weights_bytes[POLYCONV_MAX_CHAIN];
  char weights_format[POLYCONV_MAX_CHAIN][POLYCONV_FORMAT_SIZE]; /* "raw", or "<id>:<version>" */
  char reason[POLYCONV_REASON_SIZE];                             /* why not, in words, when rejected */
  /* Since minor 3, for polyconv_explain, all optional: 0 and "" are "not told". The library rejects an offer whose
   * shared_bytes exceed the policy's limit; a kernel that can do with less chooses so itself. */
  int64_t recomputed_outputs;    /* of a fused kernel: inner outputs computed again, beyond once each, in one run */
  int64_t blocks;                /* thread blocks of one run; tasks on the CPU */
  int64_t shared_bytes;          /* shared memory of a block; scratch that a thread keeps in cache on the CPU */
  int32_t threads;               /* of a block; all on the CPU */
  float occupancy;               /* resident warps over the most that a multiprocessor holds, 0 to 1 */
  char note[POLYCONV_NOTE_SIZE]; /* how it runs this, in a few words: "32x32 tiles, a ring of 5 rows" */
} polyconv_offer;

/* Pointers of one run in the roles of the normalised layers. With count > 1 `input` is what the chain reads and
 * `output` what it writes, also where its first or last layer is transposed. */
typedef struct polyconv_arguments {
  size_t struct_size;
  void *input;                       /* of the first layer */
  void *output;                      /* of the last layer: its result if FORWARD */
  void *weights[POLYCONV_MAX_CHAIN]; /* in the offered format; raw and written by BACKWARD_WEIGHTS */
  void *bias[POLYCONV_MAX_CHAIN];
  const void *scale[POLYCONV_MAX_CHAIN];
  const void *residual[POLYCONV_MAX_CHAIN];
  void *saved[POLYCONV_MAX_CHAIN];
  void *workspace;
  void *bound; /* what bind made, or NULL */
  /* Since minor 4. */
  const void *slope[POLYCONV_MAX_CHAIN];              /* of POLYCONV_ACT_PRELU, of the type of a scale */
  const void *weights_zero_point[POLYCONV_MAX_CHAIN]; /* one per output channel, of the weights' type */
  void *residual_gradient[POLYCONV_MAX_CHAIN];        /* of OP_GRADIENT; may be NULL */
} polyconv_arguments;

/* ---------------------------------------------------------------- kernels */

enum {                                   /* flags of a kernel */
       POLYCONV_KERNEL_GENERIC = 1,      /* takes everything, quickly or not: counts as a fallback */
       POLYCONV_KERNEL_TRANSFORM = 2,    /* Winograd or FFT: never under STRICT, no exact test */
       POLYCONV_KERNEL_NEEDS_BIND = 4,   /* taken only where options.bind is set */
       POLYCONV_KERNEL_ATOMIC = 8,       /* sums in an order that varies: determinism 0 only */
       POLYCONV_KERNEL_VARIANT = 16,     /* bits depend on batch or threads: determinism 0 and 1 only */
       POLYCONV_KERNEL_HOST_WEIGHTS = 32 /* run reads packed weights on the host (to launch with them as arguments):
                                            pack fills device memory as ever, run is given the library's host copy
                                            of it. Not with dynamic_weights: such a kernel must reject it */
};

/* One algorithm. `self` is the table itself, so that one set of functions can serve many kernels. Every
 * function may be called from several threads at once. */
typedef struct polyconv_kernel {
  size_t struct_size;
  const char *name; /* unique in the backend: [a-z0-9_]+, at most 128 characters */
  uint32_t flags;
  int32_t config_count; /* >= 1 */
  /* Never NULL or "", at most 128 characters. */
  const char *(*config_name)(const struct polyconv_kernel *self, int32_t config);
  /* SUCCESS, or UNSUPPORTED with offer->reason. `config` -1 asks the kernel to choose. Must be quick (well
   * under a microsecond to say no), allocate nothing and touch no device. */
  polyconv_status (*supports)(const struct polyconv_kernel *self, const polyconv_request *request, int32_t config,
                              polyconv_offer *offer);
  /* Makes what a plan owns: everything that run must not allocate. The request is not kept: copy. */
  polyconv_status (*create)(const struct polyconv_kernel *self, const polyconv_request *request, int32_t config,
                            void **instance);
  void (*destroy)(const struct polyconv_kernel *self, void *instance);
  /* Packs one layer's raw weights (described by layers[layer]->weights) into the offered format. Never called
   * for "raw". Asynchronous on devices. */
  polyconv_status (*pack)(const struct polyconv_kernel *self, void *instance, int32_t layer, const void *raw,
                          void *packed, void *stream);
  /* Optional (NULL): per-pointer objects, see polyconv_bind. */
  polyconv_status (*bind)(const struct polyconv_kernel *self, void *instance, const polyconv_arguments *arguments,
                          void **bound);
  void (*unbind)(const struct polyconv_kernel *self, void *instance, void *bound);
  /* Runs. No allocation, lock, environment or validation. The instance may run on several threads at once. */
  polyconv_status (*run)(const struct polyconv_kernel *self, void *instance, const polyconv_arguments *arguments,
                         void *stream);
  /* Since minor 1, optional (NULL): the bytes of workspace that this instance needs, at most what was offered. For
   * kernels that learn it only in create. */
  int64_t (*workspace)(const struct polyconv_kernel *self, const void *instance);
  /* Since minor 4: POLYCONV_TRAIT_* of the layers that this kernel handles; 0 where the table is shorter. It must name
   * bits, never all that there may be. */
  uint64_t takes;
  /* Since minor 4, optional (NULL, ""): what tells this kernel's code from that of another build, a word of at most 128
   * characters. The tuning database believes a time only where it was taken of the same version. Where there is none, a
   * hash of the plug-in's file stands for it, so that a change of one kernel has all of them timed again. */
  const char *version;
} polyconv_kernel;

/* ---------------------------------------------------------------- devices */

/* Memory, streams, events and graphs of one kind of device; semantics as in polyconv.h's functions of the same
 * name. Backends of the same kind all carry one; the library uses the first that loads. NULL for "cpu". */
typedef struct polyconv_device_table {
  size_t struct_size;
  uint32_t abi_minor;
  int32_t (*count)(void);
  polyconv_status (*properties)(int32_t device, polyconv_device_properties *properties);
  polyconv_status (*alloc)(int32_t device, size_t bytes, int32_t memory, void **pointer);
  polyconv_status (*free)(int32_t device, void *pointer, int32_t memory);
  polyconv_status (*copy)(int32_t device, void *destination, const void *source, size_t bytes, void *stream);
  polyconv_status (*fill)(int32_t device, void *destination, int32_t byte, size_t bytes, void *stream);
  polyconv_status (*pointer_kind)(int32_t device, const void *pointer, int32_t *memory);
  polyconv_status (*stream_create)(int32_t device, void **stream);
  polyconv_status (*stream_destroy)(int32_t device, void *stream);
  polyconv_status (*stream_synchronize)(int32_t device, void *stream);
  polyconv_status (*stream_wait)(int32_t device, void *stream, void *event);
  polyconv_status (*event_create)(int32_t device, void **event);
  polyconv_status (*event_destroy)(int32_t device, void *event);
  polyconv_status (*event_record)(int32_t device, void *event, void *stream);
  polyconv_status (*event_synchronize)(int32_t device, void *event);
  polyconv_status (*event_elapsed)(int32_t device, void *start, void *stop, double *milliseconds);
  polyconv_status (*graph_begin)(int32_t device, void *stream);
  polyconv_status (*graph_end)(int32_t device, void *stream, void **graph);
  polyconv_status (*graph_launch)(int32_t device, void *graph, void *stream);
  polyconv_status (*graph_destroy)(int32_t device, void *graph);
} polyconv_device_table;

/* ---------------------------------------------------------------- the backend */

enum { POLYCONV_BACKEND_ON_REQUEST = 1 }; /* taken only where options.kernel names it: vendor libraries */

typedef struct polyconv_backend {
  size_t struct_size;
  uint32_t abi_minor;
  uint32_t flags;
  const char *name; /* equals the file's name: "cuda-direct" for libpolyconv_cuda_direct.so */
  const char *version;
  const char *device_kind; /* "cpu", "cuda", or a name of your own */
  /* SUCCESS, or UNAVAILABLE with the reason ("no AVX2"); a note worth knowing may be left on success. Cheap,
   * compiled for the baseline CPU, creates no context, starts no thread. */
  polyconv_status (*probe)(char *reason, size_t size);
  const polyconv_device_table *device;
  int32_t kernel_count;
  const polyconv_kernel *const *kernels; /* in order of preference between equals */
} polyconv_backend;

/* The entry symbol: fills *backend with a table that lives for ever. May return UNAVAILABLE where the host's
 * minor is too old to serve. Called once, before anything else, and again where it ran out of memory. */
typedef polyconv_status (*polyconv_backend_query)(const polyconv_host *host, const polyconv_backend **backend);
#define POLYCONV_BACKEND_ENTRY "polyconv_backend_query_v1"

#ifdef __cplusplus
}

/* Locks: these numbers are the ABI on 64-bit machines. A failure here means that a field moved. */
#if UINTPTR_MAX == UINT64_MAX
static_assert(sizeof(polyconv_tensor) == 96, "polyconv_tensor is frozen");
static_assert(sizeof(polyconv_pool) == 104, "polyconv_pool is frozen");
static_assert(offsetof(polyconv_host, set_error) == 24, "polyconv_host only grows");
static_assert(offsetof(polyconv_layer, input) == 128, "polyconv_layer only grows");
static_assert(offsetof(polyconv_layer, epilogue) == 736, "polyconv_layer only grows");
static_assert(offsetof(polyconv_layer, traits) == 880, "polyconv_epilogue is frozen, polyconv_layer only grows");
static_assert(offsetof(polyconv_layer, pool_overhang) == 912, "polyconv_layer only grows");
static_assert(offsetof(polyconv_policy, shared_memory_limit) == 64, "polyconv_policy only grows");
static_assert(offsetof(polyconv_request, policy) == 24, "polyconv_request only grows");
static_assert(offsetof(polyconv_offer, reason) == 488, "polyconv_offer only grows");
static_assert(offsetof(polyconv_offer, note) == 776, "polyconv_offer only grows");
static_assert(offsetof(polyconv_arguments, bound) == 352, "polyconv_arguments only grows");
static_assert(offsetof(polyconv_arguments, residual_gradient) == 488, "polyconv_arguments only grows");
static_assert(offsetof(polyconv_kernel, takes) == 96, "polyconv_kernel only grows");
static_assert(offsetof(polyconv_kernel, version) == 104, "polyconv_kernel only grows");
static_assert(offsetof(polyconv_device_table, graph_destroy) == 168, "polyconv_device_table only grows");
static_assert(offsetof(polyconv_backend, kernels) == 64, "polyconv_backend only grows");
#endif
#endif /* __cplusplus */
#endif /* POLYCONV_BACKEND_H */
