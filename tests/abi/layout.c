/* layout.c - where every field of every public struct lies on 64-bit machines, and every constant's value: the part of
 * the ABI that a program compiled yesterday has inside it. A failure here means that a field moved; new fields go to
 * the end of their struct and of its lines here.
 * SPDX-License-Identifier: Apache-2.0 */
#include <polyconv/polyconv.h>

/* C99 has no static_assert: an array of size -1 is the error message. */
#define HOLDS(name, condition) extern char name[(condition) ? 1 : -1]
#define AT(type, field, offset) HOLDS(type##_##field##_moved, offsetof(type, field) == offset)
#define SIZE(type, size) HOLDS(type##_has_another_size, sizeof(type) == size)
#define VALUE(constant, value) HOLDS(constant##_has_another_value, (constant) == (value))

#if UINTPTR_MAX == UINT64_MAX

AT(polyconv_pool, kind, 0);
AT(polyconv_pool, count_include_pad, 4);
AT(polyconv_pool, window, 8);
AT(polyconv_pool, stride, 32);
AT(polyconv_pool, pad_begin, 56);
AT(polyconv_pool, pad_end, 80);
SIZE(polyconv_pool, 104);

AT(polyconv_epilogue, has_scale, 0);
AT(polyconv_epilogue, has_bias, 4);
AT(polyconv_epilogue, residual_from, 8);
AT(polyconv_epilogue, activation, 12);
AT(polyconv_epilogue, activation_alpha, 16);
AT(polyconv_epilogue, activation_beta, 20);
AT(polyconv_epilogue, residual_scale, 24);
AT(polyconv_epilogue, residual_zero_point, 28);
AT(polyconv_epilogue, out_scale, 32);
AT(polyconv_epilogue, out_zero_point, 36);
AT(polyconv_epilogue, pool, 40);
SIZE(polyconv_epilogue, 144);

AT(polyconv_problem, struct_size, 0);
AT(polyconv_problem, direction, 8);
AT(polyconv_problem, transposed, 12);
AT(polyconv_problem, spatial_dims, 16);
AT(polyconv_problem, flip, 20);
AT(polyconv_problem, batch, 24);
AT(polyconv_problem, in_channels, 32);
AT(polyconv_problem, out_channels, 40);
AT(polyconv_problem, groups, 48);
AT(polyconv_problem, input_size, 56);
AT(polyconv_problem, kernel_size, 80);
AT(polyconv_problem, stride, 104);
AT(polyconv_problem, dilation, 128);
AT(polyconv_problem, pad_begin, 152);
AT(polyconv_problem, pad_end, 176);
AT(polyconv_problem, output_padding, 200);
AT(polyconv_problem, pad_mode, 224);
AT(polyconv_problem, separable, 228);
AT(polyconv_problem, pad_value, 232);
AT(polyconv_problem, input_type, 240);
AT(polyconv_problem, weights_type, 244);
AT(polyconv_problem, output_type, 248);
AT(polyconv_problem, input_layout, 252);
AT(polyconv_problem, weights_layout, 256);
AT(polyconv_problem, output_layout, 260);
AT(polyconv_problem, has_input_strides, 264);
AT(polyconv_problem, has_weights_strides, 268);
AT(polyconv_problem, has_output_strides, 272);
AT(polyconv_problem, input_zero_point, 276);
AT(polyconv_problem, weights_zero_point, 280);
AT(polyconv_problem, input_strides, 288);
AT(polyconv_problem, weights_strides, 328);
AT(polyconv_problem, output_strides, 368);
AT(polyconv_problem, epilogue, 408);
AT(polyconv_problem, pool_dilation, 552);
AT(polyconv_problem, pool_ceil, 576);
AT(polyconv_problem, has_weights_zero_points, 580);
SIZE(polyconv_problem, 584);

AT(polyconv_tensor, type, 0);
AT(polyconv_tensor, reserved, 4);
AT(polyconv_tensor, size, 8);
AT(polyconv_tensor, stride, 48);
AT(polyconv_tensor, offset, 88);
SIZE(polyconv_tensor, 96);

AT(polyconv_backend_info, struct_size, 0);
AT(polyconv_backend_info, name, 8);
AT(polyconv_backend_info, version, 16);
AT(polyconv_backend_info, path, 24);
AT(polyconv_backend_info, device_kind, 32);
AT(polyconv_backend_info, reason, 40);
AT(polyconv_backend_info, available, 48);
AT(polyconv_backend_info, kernel_count, 52);
AT(polyconv_backend_info, abi_minor, 56);
SIZE(polyconv_backend_info, 64);

AT(polyconv_device_properties, struct_size, 0);
AT(polyconv_device_properties, name, 8);
AT(polyconv_device_properties, description, 136);
AT(polyconv_device_properties, memory_bytes, 392);
AT(polyconv_device_properties, compute_units, 400);
AT(polyconv_device_properties, compute_capability, 404);
AT(polyconv_device_properties, clock_mhz, 408);
SIZE(polyconv_device_properties, 416);

AT(polyconv_allocator, allocate, 0);
AT(polyconv_allocator, release, 8);
AT(polyconv_allocator, context, 16);
SIZE(polyconv_allocator, 24);

AT(polyconv_options, struct_size, 0);
AT(polyconv_options, kernel, 8);
AT(polyconv_options, math, 16);
AT(polyconv_options, determinism, 20);
AT(polyconv_options, fallback, 24);
AT(polyconv_options, threads, 28);
AT(polyconv_options, workspace_limit, 32);
AT(polyconv_options, tuning_budget_ms, 40);
AT(polyconv_options, dynamic_weights, 48);
AT(polyconv_options, checked, 52);
AT(polyconv_options, save, 56);
AT(polyconv_options, bind, 60);
AT(polyconv_options, parallel_for, 64);
AT(polyconv_options, parallel_for_context, 72);
AT(polyconv_options, allocator, 80);
AT(polyconv_options, observer, 104);
AT(polyconv_options, observer_context, 112);
AT(polyconv_options, grouping, 120);
AT(polyconv_options, shared_memory_limit, 128);
SIZE(polyconv_options, 136);

AT(polyconv_plan_info, struct_size, 0);
AT(polyconv_plan_info, kernel, 8);
AT(polyconv_plan_info, math, 16);
AT(polyconv_plan_info, workspace_bytes, 24);
AT(polyconv_plan_info, estimate_us, 32);
AT(polyconv_plan_info, step_count, 40);
AT(polyconv_plan_info, fallback, 44);
AT(polyconv_plan_info, threads, 48);
AT(polyconv_plan_info, needs_bind, 52);
AT(polyconv_plan_info, transform, 56);
AT(polyconv_plan_info, measured_on, 64);
AT(polyconv_plan_info, measured_elsewhere, 72);
SIZE(polyconv_plan_info, 80);

AT(polyconv_buffers, struct_size, 0);
AT(polyconv_buffers, input, 8);
AT(polyconv_buffers, output, 16);
AT(polyconv_buffers, weights, 24);
AT(polyconv_buffers, packed, 88);
AT(polyconv_buffers, bias, 152);
AT(polyconv_buffers, scale, 216);
AT(polyconv_buffers, residual, 280);
AT(polyconv_buffers, saved, 344);
AT(polyconv_buffers, workspace, 408);
AT(polyconv_buffers, workspace_size, 416);
AT(polyconv_buffers, slope, 424);
AT(polyconv_buffers, weights_zero_point, 488);
AT(polyconv_buffers, residual_gradient, 552);
SIZE(polyconv_buffers, 616);

AT(polyconv_candidate, struct_size, 0);
AT(polyconv_candidate, kernel, 8);
AT(polyconv_candidate, reason, 16);
AT(polyconv_candidate, estimate_us, 24);
AT(polyconv_candidate, workspace_bytes, 32);
AT(polyconv_candidate, accepted, 40);
AT(polyconv_candidate, chosen, 44);
AT(polyconv_candidate, fallback, 48);
AT(polyconv_candidate, grouping, 56);
AT(polyconv_candidate, note, 64);
AT(polyconv_candidate, saved_bytes, 72);
AT(polyconv_candidate, recomputed_outputs, 80);
AT(polyconv_candidate, blocks, 88);
AT(polyconv_candidate, shared_bytes, 96);
AT(polyconv_candidate, threads, 104);
AT(polyconv_candidate, occupancy, 108);
AT(polyconv_candidate, measured, 112);
AT(polyconv_candidate, measured_on, 120);
AT(polyconv_candidate, measured_elsewhere, 128);
SIZE(polyconv_candidate, 136);

AT(polyconv_cache_stats, struct_size, 0);
AT(polyconv_cache_stats, hits, 8);
AT(polyconv_cache_stats, misses, 16);
AT(polyconv_cache_stats, evictions, 24);
AT(polyconv_cache_stats, plans, 32);
AT(polyconv_cache_stats, in_use, 40);
AT(polyconv_cache_stats, bytes, 48);
AT(polyconv_cache_stats, byte_limit, 56);
SIZE(polyconv_cache_stats, 64);

AT(polyconv_tune_progress, struct_size, 0);
AT(polyconv_tune_progress, problem, 8);
AT(polyconv_tune_progress, finished, 12);
AT(polyconv_tune_progress, token, 16);
AT(polyconv_tune_progress, kernel, 24);
AT(polyconv_tune_progress, reason, 32);
AT(polyconv_tune_progress, us, 40);
AT(polyconv_tune_progress, timed, 48);
AT(polyconv_tune_progress, known, 52);
AT(polyconv_tune_progress, elapsed_ms, 56);
AT(polyconv_tune_progress, left_ms, 64);
AT(polyconv_tune_progress, unkept, 72);
SIZE(polyconv_tune_progress, 80);

#endif

VALUE(POLYCONV_SUCCESS, 0);
VALUE(POLYCONV_INVALID_ARGUMENT, 1);
VALUE(POLYCONV_UNSUPPORTED, 2);
VALUE(POLYCONV_UNAVAILABLE, 3);
VALUE(POLYCONV_OUT_OF_MEMORY, 4);
VALUE(POLYCONV_WORKSPACE_TOO_SMALL, 5);
VALUE(POLYCONV_DEVICE_ERROR, 6);
VALUE(POLYCONV_IO_ERROR, 7);
VALUE(POLYCONV_INTERNAL, 8);
VALUE(POLYCONV_LOG_ERROR, 0);
VALUE(POLYCONV_LOG_WARNING, 1);
VALUE(POLYCONV_LOG_INFO, 2);
VALUE(POLYCONV_LOG_DEBUG, 3);
VALUE(POLYCONV_FORWARD, 0);
VALUE(POLYCONV_BACKWARD_DATA, 1);
VALUE(POLYCONV_BACKWARD_WEIGHTS, 2);
VALUE(POLYCONV_F64, 1);
VALUE(POLYCONV_F32, 2);
VALUE(POLYCONV_F16, 3);
VALUE(POLYCONV_BF16, 4);
VALUE(POLYCONV_S32, 5);
VALUE(POLYCONV_S8, 6);
VALUE(POLYCONV_U8, 7);
VALUE(POLYCONV_U16, 8);
VALUE(POLYCONV_CHANNELS_FIRST, 0);
VALUE(POLYCONV_CHANNELS_LAST, 1);
VALUE(POLYCONV_PAD_ZERO, 0);
VALUE(POLYCONV_PAD_CONSTANT, 1);
VALUE(POLYCONV_PAD_REFLECT, 2);
VALUE(POLYCONV_PAD_SYMMETRIC, 3);
VALUE(POLYCONV_PAD_REPLICATE, 4);
VALUE(POLYCONV_PAD_CIRCULAR, 5);
VALUE(POLYCONV_ACT_NONE, 0);
VALUE(POLYCONV_ACT_RELU, 1);
VALUE(POLYCONV_ACT_CLIPPED_RELU, 2);
VALUE(POLYCONV_ACT_LEAKY_RELU, 3);
VALUE(POLYCONV_ACT_TANH, 4);
VALUE(POLYCONV_ACT_SIGMOID, 5);
VALUE(POLYCONV_ACT_GELU, 6);
VALUE(POLYCONV_ACT_SILU, 7);
VALUE(POLYCONV_ACT_HARD_SWISH, 8);
VALUE(POLYCONV_ACT_ELU, 9);
VALUE(POLYCONV_ACT_GELU_TANH, 10);
VALUE(POLYCONV_ACT_PRELU, 11);
VALUE(POLYCONV_POOL_NONE, 0);
VALUE(POLYCONV_POOL_MAX, 1);
VALUE(POLYCONV_POOL_AVERAGE, 2);
VALUE(POLYCONV_RESIDUAL_NONE, 0);
VALUE(POLYCONV_RESIDUAL_BUFFER, 1);
VALUE(POLYCONV_RESIDUAL_INPUT, 2);
VALUE(POLYCONV_RESIDUAL_LAYER, 16);
VALUE(POLYCONV_TENSOR_INPUT, 0);
VALUE(POLYCONV_TENSOR_WEIGHTS, 1);
VALUE(POLYCONV_TENSOR_BIAS, 2);
VALUE(POLYCONV_TENSOR_SCALE, 3);
VALUE(POLYCONV_TENSOR_RESIDUAL, 4);
VALUE(POLYCONV_TENSOR_OUTPUT, 5);
VALUE(POLYCONV_TENSOR_ARGMAX, 6);
VALUE(POLYCONV_TENSOR_PRE_ACTIVATION, 7);
VALUE(POLYCONV_TENSOR_SLOPE, 8);
VALUE(POLYCONV_TENSOR_WEIGHTS_ZERO_POINT, 9);
VALUE(POLYCONV_TENSOR_RESIDUAL_GRADIENT, 10);
VALUE(POLYCONV_MEMORY_DEVICE, 0);
VALUE(POLYCONV_MEMORY_PINNED, 1);
VALUE(POLYCONV_MEMORY_HOST, 2);
VALUE(POLYCONV_MATH_STRICT, 0);
VALUE(POLYCONV_MATH_FP32_EMULATED, 1);
VALUE(POLYCONV_MATH_TF32, 2);
VALUE(POLYCONV_MATH_FAST, 3);
VALUE(POLYCONV_DETERMINISM_NONE, 0);
VALUE(POLYCONV_DETERMINISM_RUN, 1);
VALUE(POLYCONV_DETERMINISM_INVARIANT, 2);
VALUE(POLYCONV_DETERMINISM_IDENTICAL, 3);
VALUE(POLYCONV_FALLBACK_WARN, 0);
VALUE(POLYCONV_FALLBACK_ERROR, 1);
VALUE(POLYCONV_FALLBACK_ALLOW, 2);
VALUE(POLYCONV_SAVE_NONE, 0);
VALUE(POLYCONV_SAVE_ARGMAX, 1);
VALUE(POLYCONV_SAVE_PRE_ACTIVATION, 2);
VALUE(POLYCONV_MAX_SPATIAL, 3);
VALUE(POLYCONV_MAX_CHAIN, 8);
VALUE(POLYCONV_ALIGNMENT, 256);
