# shellcheck shell=bash
# vLLM in the demo: its own OpenAI server. Sourced by demo.sh, whose variables it uses.

# shellcheck disable=SC2034  # demo.sh and servers.sh read them
{
  ENGINE_NAME=vLLM ENGINE_WHAT="vLLM for a CPU" ENGINE_ARGS=12 ENGINE_CONTAINER=vllm
  ASKED=/v1/completions
  ALL_TOKENS=.usage.prompt_tokens CACHED_TOKENS=.usage.prompt_tokens_details.cached_tokens
  COMPUTED='.choices[0].logprobs.top_logprobs'
}
# shellcheck source=servers.sh
. "$HERE/demo/servers.sh"
RELEASE=$(newest_release vllm)

request() { jq -c '{model: "tiny", max_tokens: 8, temperature: 0, logprobs: 5, ignore_eos: true, prompt: .}'; }

# What a user writes: vLLM's own command line, and one label. The annotation makes the host pool as small as the model.
engine_manifest() {  # engine_manifest NAME NODE
  cat <<Y
apiVersion: v1
kind: Pod
metadata:
  name: $1
  labels: {peercache.io/inject: $CLUSTER}
  annotations: {peercache.io/vllm-host-memory: 256Mi}
spec:
  nodeSelector: {kubernetes.io/hostname: $2}
  tolerations: [{operator: Exists}]
  terminationGracePeriodSeconds: 0
  containers:
  - name: vllm
    image: $(image_name engine)
    command: [/opt/engines/venv/bin/python, -m, vllm.entrypoints.openai.api_server]
    args: [--model, /model, --served-model-name, tiny, --port, "8000", --dtype, bfloat16, --max-model-len, "2048", --enforce-eager, --enable-prompt-tokens-details]
    env:
    - {name: PYTHONPATH, value: /opt/engines/releases/vllm-$RELEASE}
    - {name: HF_HUB_OFFLINE, value: "1"}
    - {name: HOME, value: /tmp}
    - {name: OMP_NUM_THREADS, value: "1"}
    - {name: TORCHDYNAMO_DISABLE, value: "1"}  # compiling needs a compiler
    - {name: VLLM_CPU_KVCACHE_SPACE, value: "1"}
    - {name: VLLM_CPU_OMP_THREADS_BIND, value: nobind}
    - {name: VLLM_NO_USAGE_STATS, value: "1"}
    readinessProbe:
      httpGet: {path: /health, port: 8000}
      periodSeconds: 2
      failureThreshold: 10
    volumeMounts:
    - {name: packages, mountPath: /opt/engines, readOnly: true}
    - {name: packages, mountPath: /model, subPath: model, readOnly: true}
  volumes:
  - {name: packages, hostPath: {path: $ENGINES, type: Directory}}
Y
}

look_around() {
  cat <<T
  kubectl -n $NAMESPACE port-forward pod/reader 8000 &
  curl -H 'Content-Type: application/json' -d '{"model": "tiny", "prompt": "w7 w8 w9"}' 127.0.0.1:8000/v1/completions
  curl -s 127.0.0.1:8000/metrics | grep kv_offload_tiering
T
}
