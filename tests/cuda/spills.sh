#!/bin/sh
# spills.sh NVCC FLAG... - the build check of spilled registers at work: with the flags of our kernels and warnings as
# errors, a kernel that keeps few values compiles, and one that keeps more than its registers hold does not.
nvcc=$1
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/kernel.cu" <<'KERNEL'
__global__ void __launch_bounds__(1024) keep(float *p) { // at most 64 registers a thread
  float kept[KEPT];
#pragma unroll
  for (int i = 0; i < KEPT; ++i) kept[i] = p[i * 1024 + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < KEPT; ++i) p[i * 1024 + threadIdx.x] = kept[i] * kept[(7 * i + 1) % KEPT];
}
KERNEL
compile() { "$nvcc" "$@" --cubin -o "$folder/kernel.cubin" "$folder/kernel.cu" >"$folder/log" 2>&1; }
if ! compile "$@" -DKEPT=4; then
  echo "a kernel that spills nothing does not compile:"
  cat "$folder/log"
  exit 1
fi
if compile "$@" -DKEPT=96; then
  echo "a kernel that spills compiles"
  cat "$folder/log"
  exit 1
fi
grep -q "spilled to local memory" "$folder/log" && exit 0
echo "a kernel that spills fails for another reason:"
cat "$folder/log"
exit 1
