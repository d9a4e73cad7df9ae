#!/usr/bin/env bash
# PYTHONPATH must have build/python/python and examples/python; POLYCONV_BACKEND_PATH the CUDA plug-ins. About 3 minutes.
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PYTHONPATH="$PYTHONPATH:$PWD/examples/python"
nvidia-smi --query-gpu=name --format=csv,noheader
# correctness, four at a time
timeout 120 python3 gpu/find_bugs2.py gradients_by_layer:yolo gradients_by_layer:unet3d gradients_by_layer:vae whole_gradients:resnet50 autocast_packs_once
# times, alone
for kind in inference graph fused fused_graph; do
  timeout 60 python3 gpu/find_bugs2.py bench_rows:$kind
done
timeout 150 python3 python/tests/gpu/smoke.py
