#!/usr/bin/env bash
# Two SGLang servers on this machine's CPU and a router before them, until Ctrl-C or until one of them ends.
#
#     examples/scale_out/serve.sh [MODEL_FOLDER]
#
# PYTHON is one that SGLang is installed for (`make test-sglang` makes one), POLICY the router's, PORT the first of
# four ports. On GPUs leave out the line of CPU settings, and give each server its own (CUDA_VISIBLE_DEVICES).
set -euo pipefail
cd "$(dirname "$0")/../.."
PYTHON=${PYTHON:-.venv-sglang/bin/python}
MODEL=${1:-${AGENTFORM_HOME:-$HOME/.cache/agentform}/models/smollm2-135m}
PORT=${PORT:-30000}
POLICY=${POLICY:-cache_aware}
CPU=(--device cpu --attention-backend torch_native --sampling-backend pytorch --disable-cuda-graph
     --disable-overlap-schedule --mem-fraction-static 0.5 --max-total-tokens 16384 --sleep-on-idle)
export OMP_NUM_THREADS=1

stop() { trap - EXIT; kill -- $(jobs -p) 2>/dev/null || true; wait; }
trap stop EXIT
trap 'exit 130' INT TERM

workers=()
for port in $((PORT + 1)) $((PORT + 2)); do
    "$PYTHON" -m sglang.launch_server --model-path "$MODEL" --served-model-name "$(basename "$MODEL")" \
        --host 127.0.0.1 --port "$port" --grammar-backend llguidance --log-level warning "${CPU[@]}" &
    workers+=("http://127.0.0.1:$port")
done
"$PYTHON" -m sglang_router.launch_router --host 127.0.0.1 --port "$PORT" --prometheus-port $((PORT + 3)) \
    --policy "$POLICY" --log-level warn --worker-urls "${workers[@]}" &
echo "in a minute: python examples/scale_out/talk.py http://127.0.0.1:$PORT" >&2
wait -n
