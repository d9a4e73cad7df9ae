/* polyconv.h - the whole public C API of polyconv, a convolution library.
 *
 * Four steps, read top to bottom:
 *
 *   describe   fill a polyconv_problem (or polyconv_problem_parse a one-line token)
 *   plan       polyconv_plan_create: which kernel of which backend, decided once
 *   prepare    polyconv_weights_create: pack the weights once (optional for raw formats)
 *   run        polyconv_run: no allocation, no lock, no validation beyond O(1) checks
 *
 * polyconv_convolve does all four on host pointers.
 *
 * Conventions that hold everywhere
 *   - Every function returns a polyconv_status unless its comment says otherwise. On anything but
 *     POLYCONV_SUCCESS nothing has been written, changed or leaked, and polyconv_last_error() holds one
 *     sentence naming the field, the value and what was expected.
 *   - Structs that callers fill begin with struct_size, have an _init function, and only grow at the end.
 *     Always call _init first: it sets struct_size and the defaults named in the comments. An older library
 *     refuses a newer struct in which a field that it does not know is not 0, and leaves what it fills of one 0.
 *   - Sizes and strides are int64_t and count elements unless a comment says bytes. Spatial arrays hold up to three
 *     axes, outermost first (D, H, W for 3D; H, W for 2D; W for 1D) in entries 0..spatial_dims-1; the rest is ignored.
 *   - Enumerations are int32_t fields with named constants whose values never change.
 *   - Any function may be called from any thread. Objects are immutable once created, unless a comment says
 *     otherwise; destroying an object while another thread uses it is an error of the caller.
 *   - The library never throws, aborts, exits, or writes to stdout or stderr. Forked children may go on using it.
 *   - CPU kernels run in the default mode of floating point, whatever the calling thread's is (x86 and 64-bit Arm).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef POLYCONV_POLYCONV_H
#define POLYCONV_POLYCONV_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#if defined(POLYCONV_BUILDING_LIBRARY)
#define POLYCONV_API __declspec(dllexport)
#else
#define POLYCONV_API __declspec(dllimport)
#endif
#elif defined(__GNUC__)
#define POLYCONV_API __attribute__((visibility("default")))
#else
#define POLYCONV_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- version, status, errors, log */

#define POLYCONV_VERSION_MAJOR 0
#define POLYCONV_VERSION_MINOR 1
#define POLYCONV_VERSION_PATCH 0

/* The running library's version as "major.minor.patch". Never NULL; static storage. */
POLYCONV_API const char *polyconv_version(void);

typedef int32_t polyconv_status;
enum {
  POLYCONV_SUCCESS = 0,
  POLYCONV_INVALID_ARGUMENT = 1,    /* a field, pointer or combination that can never work */
  POLYCONV_UNSUPPORTED = 2,         /* valid, but no kernel takes this problem under these options */
  POLYCONV_UNAVAILABLE = 3,         /* the backend or device asked for is not on this machine */
  POLYCONV_OUT_OF_MEMORY = 4,       /* host or device memory ran out */
  POLYCONV_WORKSPACE_TOO_SMALL = 5, /* the caller's workspace is smaller than the plan's */
  POLYCONV_DEVICE_ERROR = 6,        /* the device or its driver reported an error */
  POLYCONV_IO_ERROR = 7,            /* a file could not be read, written or understood */
  POLYCONV_INTERNAL = 8             /* a defect in polyconv or in a backend; please report it */
};

/* The name of a status in lower-case words ("invalid argument"); "unknown status" for any other value.
 * Never NULL; static storage. */
POLYCONV_API const char *polyconv_status_string(polyconv_status status);

/* One sentence about the last call on this thread that did not return POLYCONV_SUCCESS: field, value and
 * expectation. "" before the first failure. The pointer is valid until the next failure on this thread. */
POLYCONV_API const char *polyconv_last_error(void);

enum { POLYCONV_LOG_ERROR = 0, POLYCONV_LOG_WARNING = 1, POLYCONV_LOG_INFO = 2, POLYCONV_LOG_DEBUG = 3 };

/* Receives one line of log without a newline. Called on the thread that caused it, possibly from several
 * threads at once. It must not throw; it may call polyconv, whose own lines then go nowhere. */
typedef void (*polyconv_log_callback)(void *context, int32_t level, const char *message);

/* Sets the process-wide log sink: messages of `level` and below go to `callback`. NULL switches logging
 * off, which is the default; the environment variable POLYCONV_LOG=error|warning|info|debug, read once,
 * sends them to stderr instead until this is called. Logging never changes a result. Thread safe. */
POLYCONV_API void polyconv_set_log(polyconv_log_callback callback, void *context, int32_t level);

/* ---------------------------------------------------------------- the problem */

#define POLYCONV_MAX_SPATIAL 3
#define POLYCONV_MAX_CHAIN 8
#define POLYCONV_MAX_ELEMENTS (INT64_C(1) << 48) /* bounds of a problem, see polyconv_problem */
#define POLYCONV_MAX_PRODUCTS (INT64_C(1) << 58)

enum { /* direction */
       POLYCONV_FORWARD = 0,
       POLYCONV_BACKWARD_DATA = 1,   /* reads output (its gradient) and weights, writes input (its gradient) */
       POLYCONV_BACKWARD_WEIGHTS = 2 /* reads input and output (gradient), writes weights and bias (gradients) */
};

enum { /* element types; the numbers are part of saved files */
       POLYCONV_F64 = 1,
       POLYCONV_F32 = 2,
       POLYCONV_F16 = 3,  /* IEEE binary16 */
       POLYCONV_BF16 = 4, /* upper half of an IEEE binary32 */
       POLYCONV_S32 = 5,
       POLYCONV_S8 = 6,
       POLYCONV_U8 = 7,
       POLYCONV_U16 = 8
};

enum {                              /* order of a dense tensor in memory, outermost first */
       POLYCONV_CHANNELS_FIRST = 0, /* N C D H W; for weights K C/g D R S, named kcrs */
       POLYCONV_CHANNELS_LAST = 1   /* N D H W C; for weights K D R S C/g, named krsc */
};

/* What an input coordinate outside the tensor reads; i counts outwards from the edge, 1 first. Whether padding is
 * multiplied by a weight that is not finite (0 x Inf is NaN), or left out, is the kernel's choice. So it is, with or
 * without padding, for what lies outside the tensor that a transposed problem or a gradient reads: of weights 1, Inf, 1
 * an element at the edge of a transposed result may be NaN, though it has no product with the second. */
enum {
  POLYCONV_PAD_ZERO = 0,      /* 0; the zero point for quantised inputs */
  POLYCONV_PAD_CONSTANT = 1,  /* pad_value, converted to the input type */
  POLYCONV_PAD_REFLECT = 2,   /* mirrored, the edge not repeated: c b | a b c | b a */
  POLYCONV_PAD_SYMMETRIC = 3, /* mirrored, the edge repeated:     b a | a b c | c b */
  POLYCONV_PAD_REPLICATE = 4, /* the edge for ever:               a a | a b c | c c */
  POLYCONV_PAD_CIRCULAR = 5   /* periodic:                        b c | a b c | a b */
};

enum { /* activation; alpha and beta are polyconv_epilogue's */
       POLYCONV_ACT_NONE = 0,
       POLYCONV_ACT_RELU = 1,         /* max(v, 0) */
       POLYCONV_ACT_CLIPPED_RELU = 2, /* min(max(v, 0), alpha), alpha > 0 */
       POLYCONV_ACT_LEAKY_RELU = 3,   /* v >= 0 ? v : alpha v */
       POLYCONV_ACT_TANH = 4,
       POLYCONV_ACT_SIGMOID = 5,    /* 1 / (1 + exp(-v)) */
       POLYCONV_ACT_GELU = 6,       /* v (1 + erf(v / sqrt 2)) / 2, the exact form */
       POLYCONV_ACT_SILU = 7,       /* v sigmoid(v) */
       POLYCONV_ACT_HARD_SWISH = 8, /* v min(max(v + 3, 0), 6) / 6 */
       POLYCONV_ACT_ELU = 9,        /* v >= 0 ? v : alpha (exp(v) - 1) */
       POLYCONV_ACT_GELU_TANH =
           10,                 /* v (1 + tanh(sqrt(2 / pi) (v + 0.044715 v^3))) / 2, PyTorch's approximate="tanh" */
       POLYCONV_ACT_PRELU = 11 /* v >= 0 ? v : slope[k] v, slopes per output channel in buffers.slope[layer] */
};

enum { POLYCONV_POOL_NONE = 0, POLYCONV_POOL_MAX = 1, POLYCONV_POOL_AVERAGE = 2 };

enum { /* where a layer's residual comes from */
       POLYCONV_RESIDUAL_NONE = 0,
       POLYCONV_RESIDUAL_BUFFER = 1, /* buffers.residual[layer] */
       POLYCONV_RESIDUAL_INPUT = 2,  /* the chain's input */
       POLYCONV_RESIDUAL_LAYER = 16  /* + i: the output of layer i of the same chain, i < this layer */
};

/* Pooling over the activated result. Windows may be dilated and sizes rounded up (pool_dilation and pool_ceil of
 * polyconv_problem): with reach = dilation (window - 1) + 1, the output size per axis is
 *
 *   floor((size + pad_begin + pad_end - reach) / stride) + 1
 *   ceil ((size + pad_begin + pad_end - reach) / stride) + 1     pool_ceil; less 1 where the last window would begin
 *                                                                 in the padding at the end, or behind it
 *
 * Padding never wins a maximum, and counts in an average only if count_include_pad is 1; what a window has beyond
 * the padding never counts. Among equals the first in order of D, H, W is the argmax, which counts the elements of a
 * window; NaN is greater than everything. Each pad must be smaller than the reach, and a dilated window with padding
 * before it needs a dilation of at most the size, so that no window is empty. */
typedef struct polyconv_pool {
  int32_t kind; /* POLYCONV_POOL_*; the rest is ignored when NONE */
  int32_t count_include_pad;
  int64_t window[POLYCONV_MAX_SPATIAL];
  int64_t stride[POLYCONV_MAX_SPATIAL];
  int64_t pad_begin[POLYCONV_MAX_SPATIAL];
  int64_t pad_end[POLYCONV_MAX_SPATIAL];
} polyconv_pool;

/* What happens to each sum before it is stored, in this order:
 *
 *   v = sum * scale[k] + bias[k]          float rows
 *   v = (sum + bias[k]) * scale[k]        s8/u8 rows: the s32 bias is in the units of the sum
 *   v = v + residual_scale * (residual - residual_zero_point)
 *   v = activation(v)
 *   v = pool(v)
 *   stored = saturate(round_half_even(v / out_scale) + out_zero_point)     integer outputs
 *
 * In the s8/u8 rows sum + bias is s32, wrapping modulo 2^32, and the arithmetic after it is f32, each
 * operation rounded to nearest on its own (no fused multiply-add), on every backend, but for what activations with
 * exp, erf or tanh round inside; a pooling average adds its window in order of D, H, W and then divides by the count.
 * The one exception: output s32 with nothing but a bias stays in integers throughout. Kernels may evaluate float rows
 * in f32 (f64 for the f64 row) or wider. */
typedef struct polyconv_epilogue {
  int32_t has_scale;     /* buffers.scale[layer]: one per output channel; f64 in the f64 row, f32 elsewhere */
  int32_t has_bias;      /* buffers.bias[layer]: one per output channel, of the row's bias type. In BACKWARD_
                            WEIGHTS: the bias gradient is wanted */
  int32_t residual_from; /* POLYCONV_RESIDUAL_*; the residual has the type and shape of the output before
                            pooling, and its strides (dense in output_layout where there is pooling); in BACKWARD_*
                            its gradient has these, which then are >= 1 and overlap nowhere */
  int32_t activation;    /* POLYCONV_ACT_* */
  float activation_alpha;
  float activation_beta;       /* reserved for activations to come; 0 */
  float residual_scale;        /* default 1 */
  int32_t residual_zero_point; /* integer outputs only */
  float out_scale;             /* default 1, > 0; integer outputs only */
  int32_t out_zero_point;      /* integer outputs only, inside the output type's range */
  polyconv_pool pool;
} polyconv_epilogue;

/* One convolution. The output size per axis follows from the rest (see polyconv_problem_tensor):
 *
 *   forward      floor((input + pad_begin + pad_end - dilation (kernel - 1) - 1) / stride) + 1
 *   transposed   (input - 1) stride - pad_begin - pad_end + dilation (kernel - 1) + 1 + output_padding
 *
 * Types must form one of these rows (input, weights, bias, output; sums):
 *
 *   f64        f64     f64  f64               f64      f16|bf16   same    f32  same|f32          f32
 *   f32        f32     f32  f32               f32      s8|u8      s8|u8   s32  s32|s8|u8|f32     s32
 *   u8|u16     f32     f32  u8|u16|f32        f32      (images)
 *   f16|bf16   f32     f32  same|f32          f32      (BACKWARD_WEIGHTS alone: gradients kept as they are summed)
 *
 * Gradients (BACKWARD_*) exist for the float rows; the s8/u8 and image rows serve FORWARD, transposed or
 * not. Of an epilogue they take what the forward layer has: `output` is the gradient of what that layer stored, and
 * where there is more than a bias the plan begins with a step that turns it into the gradient of the sums, in the
 * workspace. With g for the gradient of the value v before the activation, by pooling, activation and what the forward
 * run left in `saved` (POLYCONV_SAVE_*), that step gives
 *
 *   gradient of the sums      g * scale[k], rounded to the output's type; input and weights get theirs from it
 *   gradient of the bias      the sum of g over the channel, unscaled: BACKWARD_WEIGHTS where has_bias is 1
 *   gradient of the residual  g * residual_scale, in buffers.residual_gradient, where residual_from is BUFFER and that
 *                             pointer is not NULL; the other sources of residuals are not taken
 *
 * In BACKWARD_DATA has_bias must be 0. A residual has no other part in either; a layer whose residual needs no gradient
 * may be described without it. Scales and slopes of a PRelu are read and get no gradients. At a kink the slope is that
 * of the flat or leaky side: relu has slope 0 at 0.
 *
 * Data that are read (the input, or in BACKWARD_* the gradient in the output's place) may have any strides: 0 repeats
 * an element, as expand does, negative ones walk backwards, as a flip does in NumPy; the pointer in buffers is then
 * that of element 0, and polyconv_problem_tensor tells how far memory lies before it. Plans copy what their kernel
 * cannot walk.
 *
 * Negative padding crops: pad_begin -1 is as if the first element were not there, pad modes see the rest, and the
 * gradient of what is cropped off is 0. It may not crop everything. A transposed problem, whose padding is its
 * output's, becomes larger by it, by elements that are sums over nothing.
 *
 * Channels and sizes may be 0, in chains the batch alone. Results without elements cost nothing and need no pointer;
 * sums over nothing are 0, and go through the epilogue. The output of an axis of 0 is 0 where its formula gives less.
 *
 * Bounds keep every size, coordinate and number of bytes inside 64 bits, in the library as in kernels. At most
 * POLYCONV_MAX_ELEMENTS are: each count, size and pad below and of pooling; the padded size of an axis (of the input;
 * transposed, of the output); and the elements of a tensor, in all and from its first to its last in memory. At most
 * POLYCONV_MAX_PRODUCTS are: the multiply-adds, padding included; and batch x the larger number of channels x padded
 * sizes. A size of 0 counts as 1. A stride along an axis with one output and a dilation along an axis with
 * one tap change nothing and are not bounded, nor is the stride of a tensor along an axis of one element.
 *
 * Weights are [out_channels][in_channels / groups][kernel]. A transposed problem is the adjoint of a
 * convolution from its output to its input and uses that one's weights: [in_channels][out_channels /
 * groups][kernel], as in PyTorch and ONNX. */
typedef struct polyconv_problem {
  size_t struct_size;
  int32_t direction;    /* default FORWARD */
  int32_t transposed;   /* 0 or 1 */
  int32_t spatial_dims; /* 1, 2 (default) or 3 */
  int32_t flip;         /* 0 cross-correlation (default, what networks call convolution); 1 true convolution */
  int64_t batch;        /* >= 0, default 1; an empty batch plans and runs */
  int64_t in_channels;  /* >= 0, default 1, a multiple of groups */
  int64_t out_channels; /* >= 0, default 1, a multiple of groups */
  int64_t groups;       /* >= 1, default 1; in_channels for depthwise */
  int64_t input_size[POLYCONV_MAX_SPATIAL];     /* >= 0; no default */
  int64_t kernel_size[POLYCONV_MAX_SPATIAL];    /* >= 1, default 1 */
  int64_t stride[POLYCONV_MAX_SPATIAL];         /* >= 1, default 1 */
  int64_t dilation[POLYCONV_MAX_SPATIAL];       /* >= 1, default 1: none */
  int64_t pad_begin[POLYCONV_MAX_SPATIAL];      /* default 0; may exceed kernel and input, or crop */
  int64_t pad_end[POLYCONV_MAX_SPATIAL];        /* likewise */
  int64_t output_padding[POLYCONV_MAX_SPATIAL]; /* >= 0, < max(stride, dilation); transposed only */
  int32_t pad_mode;                             /* POLYCONV_PAD_*, default ZERO; CONSTANT not if transposed */
  int32_t separable;    /* 1: the caller declares every channel's kernel an outer product of 1D kernels */
  double pad_value;     /* for PAD_CONSTANT: finite, representable in the input type */
  int32_t input_type;   /* default F32 */
  int32_t weights_type; /* default F32 */
  int32_t output_type;  /* default F32; the bias type follows from the row */
  int32_t input_layout; /* default CHANNELS_FIRST */
  int32_t weights_layout;
  int32_t output_layout;
  int32_t has_input_strides;   /* 1: input_strides replaces the dense strides of input_layout */
  int32_t has_weights_strides; /* likewise */
  int32_t has_output_strides;  /* likewise */
  int32_t input_zero_point;    /* s8/u8 rows: subtracted from every input, in the input type's range */
  int32_t weights_zero_point;  /* s8/u8 rows: subtracted from every weight */
  int64_t input_strides[2 + POLYCONV_MAX_SPATIAL];   /* batch, channel, spatial...; >= 1 where it is
                                                        written */
  int64_t weights_strides[2 + POLYCONV_MAX_SPATIAL]; /* K, C/g, spatial...; >= 1, or 0 on K where weights are
                                                        only read: one filter for all channels */
  int64_t output_strides[2 + POLYCONV_MAX_SPATIAL];  /* likewise. A tensor that is written must not
                                                        overlap itself */
  polyconv_epilogue epilogue;
  int64_t pool_dilation[POLYCONV_MAX_SPATIAL]; /* of epilogue.pool's window: >= 1, default 1: none */
  int32_t pool_ceil;                           /* 1: epilogue.pool's sizes are rounded up, as ceil_mode in PyTorch */
  int32_t has_weights_zero_points; /* s8/u8 rows: 1: buffers.weights_zero_point[layer], one per output channel, of the
                                      weights' type, takes the place of weights_zero_point, which must be 0 */
} polyconv_problem;

/* Sets struct_size and the defaults named above. NULL is ignored. */
POLYCONV_API void polyconv_problem_init(polyconv_problem *problem);

/* Reads one problem from its token, for instance "fwd:n1,c64,k64,i56x56,f3x3,p1:nhwc:f16:bias+relu"; the
 * grammar is in docs/problem-token.md. Absent fields take _init's defaults. *problem is changed only on
 * success, and then it is also valid. Errors: INVALID_ARGUMENT naming the part of the token. */
POLYCONV_API polyconv_status polyconv_problem_parse(const char *token, polyconv_problem *problem);

/* Structs grow, and programs live longer than headers: the symbols polyconv_problem_init and polyconv_problem_parse
 * serve programs of version 0.1 and know its struct alone. What a program compiled with this header calls by these
 * names are the two functions that are also told how large its struct is. Fields that the library does not know become
 * 0, and are refused where they are anything else. */
POLYCONV_API void polyconv_problem_init_sized(polyconv_problem *problem, size_t size);
POLYCONV_API polyconv_status polyconv_problem_parse_sized(const char *token, polyconv_problem *problem, size_t size);
#define polyconv_problem_init(problem) polyconv_problem_init_sized(problem, sizeof(polyconv_problem))
#define polyconv_problem_parse(token, problem) polyconv_problem_parse_sized(token, problem, sizeof(polyconv_problem))

/* Writes a problem's canonical token, NUL-terminated, to `buffer` of `size` bytes, and its length with the
 * NUL to *needed (may be NULL). parse(format(p)) equals p. `buffer` may be NULL when size is 0: then only
 * *needed is written. Errors: INVALID_ARGUMENT for an invalid problem or a buffer that is too small. */
POLYCONV_API polyconv_status polyconv_problem_format(const polyconv_problem *problem, char *buffer, size_t size,
                                                     size_t *needed);

/* Checks `count` (1..POLYCONV_MAX_CHAIN) problems that form a layer or a chain, as polyconv_plan_create
 * does, without planning. Errors: INVALID_ARGUMENT naming layer, field, value and expectation. */
POLYCONV_API polyconv_status polyconv_problem_validate(const polyconv_problem *problems, int32_t count);

enum { /* the tensors of a problem */
       POLYCONV_TENSOR_INPUT = 0,
       POLYCONV_TENSOR_WEIGHTS = 1,
       POLYCONV_TENSOR_BIAS = 2,
       POLYCONV_TENSOR_SCALE = 3,
       POLYCONV_TENSOR_RESIDUAL = 4,
       POLYCONV_TENSOR_OUTPUT = 5,         /* after pooling */
       POLYCONV_TENSOR_ARGMAX = 6,         /* `saved` under POLYCONV_SAVE_ARGMAX: s32 index inside the pooling window */
       POLYCONV_TENSOR_PRE_ACTIVATION = 7, /* `saved` under POLYCONV_SAVE_PRE_ACTIVATION: f32 (f64 in the f64 row); of
                                              BACKWARD_* where an activation or max pooling needs it */
       POLYCONV_TENSOR_SLOPE = 8,          /* of a PRelu */
       POLYCONV_TENSOR_WEIGHTS_ZERO_POINT = 9, /* where has_weights_zero_points is 1 */
       POLYCONV_TENSOR_RESIDUAL_GRADIENT = 10  /* of BACKWARD_* with a residual */
};

/* A tensor in memory. This struct is frozen. Axes are N C D H W (K C/g D R S for weights; vectors use only
 * C), absent axes have size 1. Element (n, c, d, h, w) lies `offset + sum of index * stride` elements after
 * the tensor's first element in memory. offset is 0 unless strides are negative: the pointer of element 0, which
 * buffers hold, lies so many elements behind that first one. (Kernels are given that pointer, and an offset of 0; an
 * offset of theirs counts from the pointer they have.) */
typedef struct polyconv_tensor {
  int32_t type;
  int32_t reserved;
  int64_t size[5];
  int64_t stride[5];
  int64_t offset;
} polyconv_tensor;

/* Describes one tensor of a valid problem and the number of bytes from its first element in memory to its last (0 for
 * an empty one). Either result may be NULL. Errors: INVALID_ARGUMENT; also when the problem has no such
 * tensor (no bias, say). */
POLYCONV_API polyconv_status polyconv_problem_tensor(const polyconv_problem *problem, int32_t which,
                                                     polyconv_tensor *tensor, int64_t *bytes);

/* Multiply-add pairs of a valid problem counted as two operations each, padding included, epilogue not. */
POLYCONV_API polyconv_status polyconv_problem_flops(const polyconv_problem *problem, double *flops);

/* Size in bytes of one element of a type, 0 for an unknown one; and its name ("f32"), "?" for an unknown one. */
POLYCONV_API size_t polyconv_type_size(int32_t type);
POLYCONV_API const char *polyconv_type_name(int32_t type);

/* ---------------------------------------------------------------- backends and devices */

/* One backend: a shared library that was found, whether or not it can serve. Strings live for ever. */
typedef struct polyconv_backend_info {
  size_t struct_size;
  const char *name;        /* "openmp"; the file's name where the backend did not get so far */
  const char *version;     /* the backend's own, "" where unknown */
  const char *path;        /* of the shared library */
  const char *device_kind; /* "cpu", "cuda"; "" where unknown */
  const char *reason;      /* why it is not available, or a note such as "avx512"; never NULL */
  int32_t available;
  int32_t kernel_count;
  int32_t abi_minor;
} polyconv_backend_info;

/* Loads one backend from an absolute path, beyond those found by the search (POLYCONV_BACKEND_PATH, the
 * library's own folder + /polyconv, the install folder). Errors: INVALID_ARGUMENT for a relative path or a
 * name that is taken; UNAVAILABLE with the reason where it does not load or does not serve: it is listed by
 * polyconv_backend_get then too. Never unloaded. */
POLYCONV_API polyconv_status polyconv_backend_load(const char *path);

/* The number of backends found; the first call of this, of polyconv_device_*, or of a planning function
 * runs the search, once a process. */
POLYCONV_API int32_t polyconv_backend_count(void);

/* Fills *info (struct_size set by the caller) for backend `index`, 0 .. count-1 in order of name. */
POLYCONV_API polyconv_status polyconv_backend_get(int32_t index, polyconv_backend_info *info);

/* The full name "backend/kernel" of kernel `kernel` of backend `index`; NULL beyond the last. */
POLYCONV_API const char *polyconv_backend_kernel(int32_t index, int32_t kernel);

/* The name of config `config` of that kernel ("128x256x64"); NULL beyond the last. A kernel has at least one. */
POLYCONV_API const char *polyconv_backend_config(int32_t index, int32_t kernel, int32_t config);

/* A device owns memory and streams. Handles are owned by the library and valid for ever. */
typedef struct polyconv_device polyconv_device;

typedef struct polyconv_device_properties {
  size_t struct_size;
  char name[128];             /* "AMD EPYC 9654", "NVIDIA H200" */
  char description[256];      /* driver and runtime versions, instruction sets */
  int64_t memory_bytes;       /* total, 0 where unknown */
  int32_t compute_units;      /* logical processors this process may use; streaming multiprocessors */
  int32_t compute_capability; /* 90 for CUDA 9.0, 0 elsewhere */
  double clock_mhz;           /* 0 where unknown */
} polyconv_device_properties;

/* The device called "cpu" (always there), "cuda" (the first) or "cuda:1". NULL means "cpu". Errors:
 * INVALID_ARGUMENT for a malformed name, UNAVAILABLE with the reason where it is missing. Wherever a
 * function takes a device, NULL is the CPU. */
POLYCONV_API polyconv_status polyconv_device_find(const char *name, const polyconv_device **device);

/* The number of devices, and the name of device `index` ("cpu" first), NULL beyond the last. */
POLYCONV_API int32_t polyconv_device_count(void);
POLYCONV_API const char *polyconv_device_name(int32_t index);

/* Fills *properties, whose struct_size the caller has set. */
POLYCONV_API polyconv_status polyconv_device_get_properties(const polyconv_device *device,
                                                            polyconv_device_properties *properties);

enum {                             /* memory */
       POLYCONV_MEMORY_DEVICE = 0, /* the device's own; ordinary memory on the CPU */
       POLYCONV_MEMORY_PINNED = 1, /* host memory that copies run fast and asynchronously from */
       POLYCONV_MEMORY_HOST = 2    /* only as an answer of polyconv_device_pointer_kind: ordinary host memory */
};

/* Allocates `bytes` (0 gives NULL), aligned to POLYCONV_ALIGNMENT; and frees it (NULL is ignored). */
POLYCONV_API polyconv_status polyconv_device_alloc(const polyconv_device *device, size_t bytes, int32_t memory,
                                                   void **pointer);
POLYCONV_API polyconv_status polyconv_device_free(const polyconv_device *device, void *pointer, int32_t memory);

/* Copies between any two of host, pinned and device memory; fills with one byte. In the order of `stream`;
 * done when the stream has been synchronised (at once on the CPU). */
POLYCONV_API polyconv_status polyconv_device_copy(const polyconv_device *device, void *destination, const void *source,
                                                  size_t bytes, void *stream);
POLYCONV_API polyconv_status polyconv_device_fill(const polyconv_device *device, void *destination, int32_t byte,
                                                  size_t bytes, void *stream);

/* Which memory a pointer belongs to: one of POLYCONV_MEMORY_*. */
POLYCONV_API polyconv_status polyconv_device_pointer_kind(const polyconv_device *device, const void *pointer,
                                                          int32_t *memory);

/* Streams: a stream is the platform's own (a cudaStream_t as it is), NULL the default one; on the CPU
 * every stream is NULL (a run refuses another, as a copy does) and everything is done on return. stream_wait makes
 * `stream` wait for `event`. */
POLYCONV_API polyconv_status polyconv_stream_create(const polyconv_device *device, void **stream);
POLYCONV_API polyconv_status polyconv_stream_destroy(const polyconv_device *device, void *stream);
POLYCONV_API polyconv_status polyconv_stream_synchronize(const polyconv_device *device, void *stream);
POLYCONV_API polyconv_status polyconv_stream_wait(const polyconv_device *device, void *stream, void *event);

/* Events: a point in a stream. elapsed gives milliseconds between two recorded and finished events. */
POLYCONV_API polyconv_status polyconv_event_create(const polyconv_device *device, void **event);
POLYCONV_API polyconv_status polyconv_event_destroy(const polyconv_device *device, void *event);
POLYCONV_API polyconv_status polyconv_event_record(const polyconv_device *device, void *event, void *stream);
POLYCONV_API polyconv_status polyconv_event_synchronize(const polyconv_device *device, void *event);
POLYCONV_API polyconv_status polyconv_event_elapsed(const polyconv_device *device, void *start, void *stop,
                                                    double *milliseconds);

/* Graphs: what is enqueued on `stream` between begin and end is recorded instead of run; launch replays it.
 * UNSUPPORTED on devices without graphs, the CPU among them. */
POLYCONV_API polyconv_status polyconv_graph_begin(const polyconv_device *device, void *stream);
POLYCONV_API polyconv_status polyconv_graph_end(const polyconv_device *device, void *stream, void **graph);
POLYCONV_API polyconv_status polyconv_graph_launch(const polyconv_device *device, void *graph, void *stream);
POLYCONV_API polyconv_status polyconv_graph_destroy(const polyconv_device *device, void *graph);

/* ---------------------------------------------------------------- options */

enum {                           /* math mode: what a kernel may do to a product. A mode is never entered unasked */
       POLYCONV_MATH_STRICT = 0, /* the type's own products and sums; CPU instructions for bf16 read denormals as 0 */
       POLYCONV_MATH_FP32_EMULATED = 1, /* f32 on matrix units with f32-level error; factors below 2^-102 lose their
                                           last bits, denormal ones are 0 */
       POLYCONV_MATH_TF32 = 2,          /* f32 products rounded to TF32 */
       POLYCONV_MATH_FAST = 3           /* f16, bf16 or TF32 products, Winograd and FFT, f32 sums */
};

enum { /* determinism */
       POLYCONV_DETERMINISM_NONE = 0,
       POLYCONV_DETERMINISM_RUN = 1,       /* the same plan repeated gives the same bits (default) */
       POLYCONV_DETERMINISM_INVARIANT = 2, /* the same image gives the same bits in any batch, thread count or stream;
                                              not for BACKWARD_WEIGHTS, which sums over the batch: planning fails */
       POLYCONV_DETERMINISM_IDENTICAL = 3  /* s8/u8 rows: identical on every backend */
};

enum {                             /* a fallback is reference/ or any kernel flagged generic; it comes after all others,
                                      whatever its estimate or, with a tuning budget, its time */
       POLYCONV_FALLBACK_WARN = 0, /* taken, with one log line a plan (default) */
       POLYCONV_FALLBACK_ERROR = 1, /* planning fails with UNSUPPORTED instead */
       POLYCONV_FALLBACK_ALLOW = 2  /* taken silently */
};

/* What `saved` holds: filled by FORWARD, read by BACKWARD_*, where an activation asks for PRE_ACTIVATION, max pooling
 * alone for either, average pooling alone for none. */
enum { POLYCONV_SAVE_NONE = 0, POLYCONV_SAVE_ARGMAX = 1, POLYCONV_SAVE_PRE_ACTIVATION = 2 };

/* A caller's thread pool: calls task(task_context, i) once for every i in [0, tasks), in any order, on any
 * threads, and returns when all have returned. It must not call task twice at once with the same i. */
typedef void (*polyconv_parallel_for)(void *context, int64_t tasks, void (*task)(void *task_context, int64_t i),
                                      void *task_context);

/* A caller's allocator for host memory that a plan or its weights own. allocate returns NULL when out of
 * memory; both must be thread safe. */
typedef struct polyconv_allocator {
  void *(*allocate)(void *context, size_t bytes, size_t alignment);
  void (*release)(void *context, void *pointer);
  void *context;
} polyconv_allocator;

/* Watches runs step by step, for profilers: called on the thread of the run with its stream, with step -1 and "" before
 * the first step, then with each step's number and full kernel name once the step is enqueued (done, on the CPU). It
 * may record an event on `stream`, and must not throw. */
typedef void (*polyconv_observer)(void *context, int32_t step, const char *kernel, void *stream);

enum { /* how weights change between runs */
       POLYCONV_WEIGHTS_CONSTANT = 0,
       POLYCONV_WEIGHTS_UPDATED = 1, /* only kernels whose packed weights can be updated in place, asynchronously */
       POLYCONV_WEIGHTS_NEW = 2      /* likewise, and they are new in every run, as in training: kernels that can read
                                        them raw do, where packing them for later runs would be faster */
};

typedef struct polyconv_options {
  size_t struct_size;
  const char *kernel;                 /* glob over full names "backend/kernel@config", '*' and '?', several separated by
                                         commas; NULL (default) for all but backends that are only taken when named.
                                         '!' before a glob forbids what it matches: "openmp/lowered" forces that kernel,
                                         with whoever pools or converts for it, "!openmp/pool" keeps that one out */
  int32_t math;                       /* POLYCONV_MATH_*, default STRICT */
  int32_t determinism;                /* POLYCONV_DETERMINISM_*, default RUN */
  int32_t fallback;                   /* POLYCONV_FALLBACK_*, default WARN */
  int32_t threads;                    /* CPU threads, at most 1024; 0 (default): by affinity, quota, OMP_NUM_THREADS */
  int64_t workspace_limit;            /* bytes, -1 (default): no limit */
  int64_t tuning_budget_ms;           /* 0 (default): heuristics only; otherwise candidates are timed for that long */
  int32_t dynamic_weights;            /* POLYCONV_WEIGHTS_*: how weights change between runs, default CONSTANT */
  int32_t checked;                    /* 1: every run makes polyconv_buffers_check first */
  int32_t save;                       /* POLYCONV_SAVE_*: what `saved` holds, default NONE */
  int32_t bind;                       /* 1: the caller will use polyconv_bind, so kernels that need it may be chosen */
  polyconv_parallel_for parallel_for; /* NULL (default): the backend's own threads; else only these */
  void *parallel_for_context;
  polyconv_allocator allocator; /* all NULL (default): the library's own */
  polyconv_observer observer;   /* NULL (default): nobody watches the plan's runs */
  void *observer_context;
  const char *grouping; /* which layers of a chain one kernel takes: NULL (default) what is fastest, "none" each layer
                           alone, "3" groups of three (the last takes the rest), "2+2" exactly these */
  int64_t shared_memory_limit; /* bytes of shared memory a block, -1 (default): what the device has. Concerns kernels
                                  that tell what they use, those of chains */
} polyconv_options;

/* Sets struct_size and the defaults named above. NULL is ignored. */
POLYCONV_API void polyconv_options_init(polyconv_options *options);

/* The same for a struct of `size` bytes, which is what a program compiled with this header calls by the name above: the
 * symbol polyconv_options_init serves programs of version 0.1 and knows their struct alone. Of a larger struct than the
 * library's, one of a newer header, the rest becomes 0; anything else there is refused wherever the struct is read. */
POLYCONV_API void polyconv_options_init_sized(polyconv_options *options, size_t size);
#define polyconv_options_init(options) polyconv_options_init_sized(options, sizeof(polyconv_options))

/* ---------------------------------------------------------------- plan */

typedef struct polyconv_plan polyconv_plan;

#define POLYCONV_ALIGNMENT 256 /* bytes: of workspaces, packed weights and polyconv_device_alloc's memory */

/* Plans `count` problems: 1 for a layer, up to POLYCONV_MAX_CHAIN for a chain in which layer i+1 reads what
 * layer i writes. `options` may be NULL for the defaults. Chooses among every kernel of every backend that
 * serves the device; with the default options it takes microseconds and touches no device memory. Neighbouring
 * layers of a chain go to one fused kernel where that is estimated to be faster than its layers one by one; with a
 * tuning budget, where it is measured to be. What lies between fused layers is not stored anywhere.
 * Errors: INVALID_ARGUMENT; UNSUPPORTED where nobody takes the problem under these options (the message
 * says why, polyconv_explain says all); UNAVAILABLE; OUT_OF_MEMORY. */
POLYCONV_API polyconv_status polyconv_plan_create(const polyconv_device *device, const polyconv_problem *problems,
                                                  int32_t count, const polyconv_options *options, polyconv_plan **plan);

/* Frees a plan; NULL is ignored. Weights made with it stay valid; runs under way must have finished. */
POLYCONV_API void polyconv_plan_destroy(polyconv_plan *plan);

/* What was chosen. Strings live as long as the plan. */
typedef struct polyconv_plan_info {
  size_t struct_size;
  const char *kernel;      /* full name of the step that convolves, "openmp/gemm@avx512"; a chain's or a
                              layer's further steps follow, separated by " + " */
  const char *math;        /* the mode entered: "strict", "fp32_emulated", ... */
  int64_t workspace_bytes; /* what every run needs */
  double estimate_us;      /* the heuristics' prediction; the measured time after tuning */
  int32_t step_count;
  int32_t fallback; /* 1: a fallback kernel was taken */
  int32_t threads;
  int32_t needs_bind;      /* 1: use polyconv_bind and polyconv_run_bound */
  int32_t transform;       /* 1: the kernel that convolves is marked Winograd or FFT; exact tests do not hold for it */
  const char *measured_on; /* the UTC day on which estimate_us was measured, "2026-11-28"; "" where it is an estimate;
                              NULL from a library that is older than the field */
  int32_t measured_elsewhere; /* 1: not here but on a machine of this kind, by the tuning file that ships, say */
} polyconv_plan_info;

/* Fills *info, whose struct_size the caller has set. */
POLYCONV_API polyconv_status polyconv_plan_get_info(const polyconv_plan *plan, polyconv_plan_info *info);

/* ---------------------------------------------------------------- plan cache */

/* Plans by problem, for programs whose shapes change from call to call: each problem is planned once, and the plans
 * that were not asked for the longest go where all together hold more bytes than wanted. The caller owns it. Every
 * function may be called from several threads at once; two that miss the same problem at once may both plan it, and
 * share one of the plans. */
typedef struct polyconv_cache polyconv_cache;

/* An empty cache of plans for a device under options (NULL: the defaults), which are copied; a pool, an allocator or an
 * observer in them must live as long as the cache. `byte_limit` is for all plans that nobody uses, in bytes of host
 * memory: what the library keeps is counted, and for what kernels keep an allowance a step; 0 keeps none that is not in
 * use, -1 all. Errors: INVALID_ARGUMENT, UNAVAILABLE, OUT_OF_MEMORY. */
POLYCONV_API polyconv_status polyconv_cache_create(const polyconv_device *device, const polyconv_options *options,
                                                   int64_t byte_limit, polyconv_cache **cache);

/* The plan of `count` problems (a layer, or a chain, as in polyconv_plan_create), made where there is none yet; a miss
 * takes as long as polyconv_plan_create and fails as it does. Problems are compared byte by byte: begin each with
 * polyconv_problem_init or _parse. The plan is used as any other but never destroyed: give it back by
 * polyconv_cache_release, once for each time it was got, when no run or bound set uses it any more; until then it
 * stays, whatever the limit. Weights made with it may live on. */
POLYCONV_API polyconv_status polyconv_cache_get(polyconv_cache *cache, const polyconv_problem *problems, int32_t count,
                                                const polyconv_plan **plan);

/* Gives a plan back; NULL is ignored. Errors: INVALID_ARGUMENT for one that is not this cache's or not in use. */
POLYCONV_API polyconv_status polyconv_cache_release(polyconv_cache *cache, const polyconv_plan *plan);

/* What a cache has done, and what it holds now. */
typedef struct polyconv_cache_stats {
  size_t struct_size;
  int64_t hits;      /* plans that were there */
  int64_t misses;    /* that were not, those that could not be made included */
  int64_t evictions; /* plans let go for the limit's sake */
  int64_t plans;     /* held now and found by the next call */
  int64_t in_use;    /* plans got and not given back, those that are no longer found included */
  int64_t bytes;     /* of the plans held now */
  int64_t byte_limit;
} polyconv_cache_stats;

/* Fills *stats, whose struct_size the caller has set. */
POLYCONV_API polyconv_status polyconv_cache_get_stats(const polyconv_cache *cache, polyconv_cache_stats *stats);

/* Lets go of every plan, so that the next are made anew: behind polyconv_tune, or a backend that was loaded. Plans in
 * use go when they are given back. NULL is ignored. */
POLYCONV_API void polyconv_cache_clear(polyconv_cache *cache);

/* Frees a cache with all its plans, of which none may be in use. NULL is ignored. */
POLYCONV_API void polyconv_cache_destroy(polyconv_cache *cache);

/* ---------------------------------------------------------------- prepare */

typedef struct polyconv_weights polyconv_weights;

/* The packed format and size in bytes of one layer's weights in this plan: "raw" where buffers.weights may be
 * given as it is, else an id with a version ("cpu_gemm_f32_16:1"), and then packed weights are required.
 * Either result may be NULL; *format lives as long as the plan. */
POLYCONV_API polyconv_status polyconv_plan_weights(const polyconv_plan *plan, int32_t layer, const char **format,
                                                   int64_t *bytes);

/* Packs raw weights (in the device's memory, in the problem's weights layout) into the layer's format. `memory`
 * is the caller's (of at least the size above, aligned, outliving *weights) or NULL: then the library
 * allocates. Asynchronous on `stream`; `raw` may be reused once the stream has got so far. (Kernels that
 * launch with their weights as arguments, cuda-constant's, make the call wait for the stream.) The object serves
 * every plan with the same format and the same weight problem: direction, transposed or not, channels, groups, kernel
 * size, types of input and weights, flip, separable and zero points, and the stride of each axis with more than one
 * output and the dilation of each with more than one tap, as kernels pack by the phases of these. Batch, sizes,
 * padding, layouts, strides in memory and the epilogue may differ; of raw weights not where these lie. */
POLYCONV_API polyconv_status polyconv_weights_create(const polyconv_plan *plan, int32_t layer, const void *raw,
                                                     void *memory, void *stream, polyconv_weights **weights);

/* Repacks in place: asynchronous, no allocation, capturable in a graph. Not while a run reads them. Errors:
 * UNSUPPORTED where the plan they were made with was not planned with options.dynamic_weights. */
POLYCONV_API polyconv_status polyconv_weights_update(polyconv_weights *weights, const void *raw, void *stream);

/* Writes packed weights to a file, atomically (a temporary file beside it, renamed): format id, token, endianness,
 * size, checksum, data. Waits for their creation on a device; the caller for updates, and for POLYCONV_WEIGHTS_NEW. */
POLYCONV_API polyconv_status polyconv_weights_save(const polyconv_weights *weights, const char *path);

/* Reads packed weights for one layer of a plan. Errors: IO_ERROR for a missing, truncated, corrupt or foreign
 * file; INVALID_ARGUMENT naming both where the format or the weight problem differs: nothing is repacked. */
POLYCONV_API polyconv_status polyconv_weights_load(const polyconv_plan *plan, int32_t layer, const char *path,
                                                   void *memory, void *stream, polyconv_weights **weights);

/* Frees the object (NULL is ignored), and its memory unless the caller gave it. */
POLYCONV_API void polyconv_weights_destroy(polyconv_weights *weights);

/* ---------------------------------------------------------------- run */

/* Pointers of one run, named as in the forward problem in every direction; [i] belongs to layer i. Device
 * memory on devices that have their own. Inputs and outputs must not overlap, except that a residual may be
 * the output itself. Tensors that the problem does not have are ignored. */
typedef struct polyconv_buffers {
  size_t struct_size;
  void *input;                                        /* the first layer's; read, or written by BACKWARD_DATA */
  void *output;                                       /* the last layer's; written, or read by BACKWARD_* */
  void *weights[POLYCONV_MAX_CHAIN];                  /* raw weights: read, or written by BACKWARD_WEIGHTS */
  const polyconv_weights *packed[POLYCONV_MAX_CHAIN]; /* packed weights; go before `weights` where both are set */
  void *bias[POLYCONV_MAX_CHAIN];                     /* read, or written by BACKWARD_WEIGHTS */
  const void *scale[POLYCONV_MAX_CHAIN];
  const void *residual[POLYCONV_MAX_CHAIN];
  void *saved[POLYCONV_MAX_CHAIN]; /* written by FORWARD, read by BACKWARD_*, as options.save says */
  void *workspace;                 /* aligned to POLYCONV_ALIGNMENT; may be NULL where the plan needs none */
  size_t workspace_size;
  const void *slope[POLYCONV_MAX_CHAIN]; /* of POLYCONV_ACT_PRELU: one per output channel, f64 in the f64 row, f32
                                            elsewhere; read in every direction */
  const void *weights_zero_point[POLYCONV_MAX_CHAIN]; /* where has_weights_zero_points is 1 */
  void *residual_gradient[POLYCONV_MAX_CHAIN];        /* written by BACKWARD_* with a residual; NULL: not wanted */
} polyconv_buffers;

/* Sets struct_size and NULL everywhere. NULL is ignored. */
POLYCONV_API void polyconv_buffers_init(polyconv_buffers *buffers);

/* The same for a struct of `size` bytes: see polyconv_options_init_sized. */
POLYCONV_API void polyconv_buffers_init_sized(polyconv_buffers *buffers, size_t size);
#define polyconv_buffers_init(buffers) polyconv_buffers_init_sized(buffers, sizeof(polyconv_buffers))

/* Checks what run does not: pointer kind (host or device), alignment, and overlap of what is written with
 * anything else. Errors: INVALID_ARGUMENT naming the buffer. */
POLYCONV_API polyconv_status polyconv_buffers_check(const polyconv_plan *plan, const polyconv_buffers *buffers);

/* Runs a plan. Never allocates, tunes, compiles, locks or synchronises, and can be captured in a graph (CPU
 * plans return when done). Checks in O(1): pointers that the problem requires, workspace size and alignment,
 * packed format. Several threads and streams may run one plan at once, each with its own workspace and
 * output. Errors: INVALID_ARGUMENT, WORKSPACE_TOO_SMALL, DEVICE_ERROR. */
POLYCONV_API polyconv_status polyconv_run(const polyconv_plan *plan, const polyconv_buffers *buffers, void *stream);

/* A plan with one set of pointers, and whatever its kernels need for these (texture objects, tensor maps). */
typedef struct polyconv_bound polyconv_bound;

/* Binds once, runs many times. The buffers, the workspace included, must outlive *bound; the struct need not.
 * Each bound object runs on one stream at a time. Errors as polyconv_buffers_check and polyconv_run; UNSUPPORTED where
 * a kernel cannot use the pointers (cuDNN's want multiples of 16 bytes). */
POLYCONV_API polyconv_status polyconv_bind(const polyconv_plan *plan, const polyconv_buffers *buffers,
                                           polyconv_bound **bound);
POLYCONV_API polyconv_status polyconv_run_bound(const polyconv_bound *bound, void *stream);
POLYCONV_API void polyconv_bound_destroy(polyconv_bound *bound);

/* All four steps at once, on host pointers, for any device: plans, packs, copies where the device has its own
 * memory, checks the buffers, binds where the kernel needs it, runs and waits. workspace, packed and options.bind are
 * ignored. Allocates on every call: for anything repeated, plan once. Errors: as those of the four steps. */
POLYCONV_API polyconv_status polyconv_convolve(const polyconv_device *device, const polyconv_problem *problems,
                                               int32_t count, const polyconv_options *options,
                                               const polyconv_buffers *buffers);

/* ---------------------------------------------------------------- explain */

typedef struct polyconv_explanation polyconv_explanation;

/* One candidate: a kernel and whether it takes the problem. Strings live as long as the explanation. */
typedef struct polyconv_candidate {
  size_t struct_size;
  const char *kernel; /* full name, with the config that the kernel chose (the first where rejected) */
  const char *reason; /* why it was rejected or what it adds ("+ pooling step"); "" where nothing to say */
  double estimate_us;
  int64_t workspace_bytes;
  int32_t accepted;
  int32_t chosen;   /* 1 for the one that polyconv_plan_create would take */
  int32_t fallback; /* 1: reference or generic */
  /* Of chains: which layers are one kernel's, as in options.grouping, and what that does in one run. Figures that
   * kernels do not tell are 0; the last four and the note are those of the slowest fused kernel. */
  const char *grouping;       /* "2+2"; "" for a single layer */
  const char *note;           /* the kernel's words on how it runs this */
  int64_t saved_bytes;        /* of memory traffic: what lies between fused layers, written once and read once */
  int64_t recomputed_outputs; /* outputs between fused layers that are computed again, beyond once each */
  int64_t blocks;             /* thread blocks; tasks on the CPU */
  int64_t shared_bytes;       /* of shared memory a block; scratch a thread on the CPU */
  int32_t threads;            /* of a block; all on the CPU */
  float occupancy;            /* resident warps over the most that a multiprocessor holds, 0 to 1 */
  int32_t measured;           /* 1: estimate_us is a measurement */
  const char *measured_on;    /* its UTC day, "2026-11-28"; "" where it is an estimate; NULL from an older library */
  int32_t measured_elsewhere; /* 1: not here but on a machine of this kind, by the tuning file that ships, say */
} polyconv_candidate;

/* Asks every kernel of every backend serving the device about a problem (or chain), as planning does, and
 * keeps every answer, including those of kernels that options.kernel filters out. Of a chain the candidates are the
 * likeliest groupings, that without fusing among them, and every kernel that was asked for all layers as one. Succeeds
 * for every valid problem, also where nobody takes it. Errors: INVALID_ARGUMENT, UNAVAILABLE, OUT_OF_MEMORY. */
POLYCONV_API polyconv_status polyconv_explain(const polyconv_device *device, const polyconv_problem *problems,
                                              int32_t count, const polyconv_options *options,
                                              polyconv_explanation **explanation);

/* The answer as text for people: what was chosen and why, the other candidates by estimate, the rejected by
 * reason, and what would change the answer. NUL-terminated; lives as long as the explanation. */
POLYCONV_API const char *polyconv_explanation_text(const polyconv_explanation *explanation);

/* The number of candidates, and candidate `index` in order of preference, accepted first. */
POLYCONV_API int32_t polyconv_explanation_count(const polyconv_explanation *explanation);
POLYCONV_API polyconv_status polyconv_explanation_get(const polyconv_explanation *explanation, int32_t index,
                                                      polyconv_candidate *candidate);
POLYCONV_API void polyconv_explanation_destroy(polyconv_explanation *explanation);

/* ---------------------------------------------------------------- tune */

/* Where polyconv_tune is. Strings live until the callback returns. */
typedef struct polyconv_tune_progress {
  size_t struct_size; /* of the library's struct, set by it: what a newer one has beyond yours is to be ignored */
  int32_t problem;    /* index of the problem at hand */
  int32_t finished;   /* 1: that problem is done; 0: one of its candidates has just been timed */
  const char *token;  /* the problem's */
  const char *kernel; /* full names of that candidate's kernels, joined by " + "; finished: of the fastest, which plans
                         take from now on, "" where nobody takes the problem */
  const char *reason; /* finished: without a kernel why, with unkept times why not; else "" */
  double us;          /* median time of a run of `kernel`, microseconds; 0 without one */
  int32_t timed;      /* candidates of this problem timed by this call, so far */
  int32_t known;      /* and those whose times the tuning database had already, which are not timed again */
  double elapsed_ms;  /* since the call began */
  double left_ms;     /* until all problems are done, expected from what those took that are; -1: not known yet */
  int32_t unkept;     /* finished: those of `timed` that no file could take and that end with this process */
} polyconv_tune_progress;

/* Returns 0 to go on. Anything else ends polyconv_tune, which keeps all times taken so far and succeeds. Called on the
 * thread of that call; it must not throw and may call polyconv. */
typedef int32_t (*polyconv_tune_callback)(void *context, const polyconv_tune_progress *progress);

/* Times the candidates of `count` problems, each a layer of its own, one after another on scratch buffers, and keeps
 * the times in the tuning database (docs/tuning.md): later plans under the same options, of this and other processes,
 * take the fastest without timing anything. What is known already is not timed again, so that a call which was stopped,
 * or killed, goes on where it was when it is made again.
 * `problems` is an array, whose elements lie as far apart as its first one's struct_size says. `budget_ms` is for all
 * of them together, in milliseconds: each gets an even share of what is left, and one for which nothing is left is not
 * begun; 0 for no such limit. options.tuning_budget_ms is the most for one problem; 0 for no limit but its share. At
 * least one candidate of a problem that is begun is timed, and a run that has begun ends. `progress` may be NULL.
 * Calls at once from several threads or processes lose nothing, but disturb each other's times.
 * Errors, before anything is timed: INVALID_ARGUMENT (a problem, named by its index; determinism 2 or parallel_for, of
 * which no times are kept), UNSUPPORTED under POLYCONV_TUNING=off or freeze, UNAVAILABLE; later OUT_OF_MEMORY and
 * DEVICE_ERROR. A problem that nobody takes is none, nor is a database that cannot be written: progress->unkept tells
 * it, and a warning in the log once, and the times serve this process. */
POLYCONV_API polyconv_status polyconv_tune(const polyconv_device *device, const polyconv_problem *problems,
                                           int32_t count, const polyconv_options *options, int64_t budget_ms,
                                           polyconv_tune_callback progress, void *context);

/* Adds what another tuning database file holds, of a colleague or a build farm with the same device and kernels, to the
 * user's own. Of two lines about the same kernels the one of the later day stays, of the same day the user's. *taken,
 * unless `taken` is NULL, becomes the number of lines that came. Lines that are torn or foreign are skipped with a
 * warning in the log. Errors: INVALID_ARGUMENT; IO_ERROR where a file cannot be read, is none, or is a newer version's,
 * and where the user's cannot be written; UNSUPPORTED under POLYCONV_TUNING=off or freeze. */
POLYCONV_API polyconv_status polyconv_tune_merge(const char *path, int64_t *taken);

#ifdef __cplusplus
}
#endif
#endif /* POLYCONV_POLYCONV_H */
