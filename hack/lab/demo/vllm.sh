# shellcheck shell=bash
# vLLM in the demo: its own OpenAI server on a CPU, with a tiny model. Sourced by demo.sh, whose variables it uses.
#
# The server's packages are 7 GB: pods mount them from this machine, which the nodes of the local provider see.

# shellcheck disable=SC2034  # demo.sh reads them
ENGINE_NAME=vLLM ENGINE_WHAT="vLLM for a CPU" ENGINE_ARGS=12
TOKENS=600
# shellcheck disable=SC2034
ENGINE_JOB="a prompt of $TOKENS tokens, computed on one node and found on another"
RELEASE=$(sed -n 's/^vllm==\([^ ]*\) .*/\1/p' "$HERE/engines/releases.txt")

prepare_engine() {
  [ "$PROVIDER" = local ] || die "vLLM's packages are not in an image that kind could load" "PROVIDER=local ENGINE=vllm make demo"
  VLLM=$("$HERE/engines/install.sh")
  MODEL=$VLLM/model
  made_once "$MODEL" make_model
}

make_model() {
  "$VLLM/venv/bin/python" "$HERE/engines/model.py" llama "$1" 1 2>/dev/null
  chmod -R a+rX "$1"  # the pods' user is not this one
}

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
  - {name: packages, hostPath: {path: $VLLM, type: Directory}}
Y
}

post() {  # post POD: vLLM's answer to the request on stdin
  kubectl -n "$NAMESPACE" exec -i "$1" -c vllm -- /usr/bin/python3 -c 'import sys, urllib.request as r; print(r.urlopen(r.Request(
    "http://127.0.0.1:8000/v1/completions", sys.stdin.buffer.read(), {"Content-Type": "application/json"})).read().decode())'
}

ask() {  # ask POD SEED: vLLM's answer to a prompt
  jq -nc --argjson seed "$2" --argjson tokens "$TOKENS" '{model: "tiny", max_tokens: 8, temperature: 0, logprobs: 5, ignore_eos: true,
    prompt: [range($tokens) | 3 + (. * 7 + $seed * 131) % 1000]}' | post "$1"
}

show() {  # show POD ANSWER SECONDS
  jq -r --arg pod "$1" --arg seconds "$3" '
    "    \($pod): \(.usage.prompt_tokens) tokens, \(.usage.prompt_tokens_details.cached_tokens // 0) of them cached, \($seconds) s"' <<<"$2"
}

timed() {  # timed POD SEED: asks, shows, and sets ANSWER
  local began=$EPOCHREALTIME
  ANSWER=$(ask "$1" "$2") || die "the request to $1 failed: $ANSWER" "kubectl -n $NAMESPACE logs $1"
  show "$1" "$ANSWER" "$(awk -v b="$began" -v e="$EPOCHREALTIME" 'BEGIN {printf "%.2f", e - b}')"
}

cached() { jq -r '.usage.prompt_tokens_details.cached_tokens // 0' <<<"$1"; }

main_job() {
  local seed=$RANDOM first
  # The first request of a server is slow: not with the prompt that counts.
  ask writer $((seed + 1)) >/dev/null
  ask reader $((seed + 2)) >/dev/null
  timed writer "$seed"
  first=$ANSWER
  sleep 2  # the writer stores while it computes on
  timed reader "$seed"
  [ "$(cached "$ANSWER")" -gt 0 ] || die "the reader found none of the prompt's pages" "kubectl -n $NAMESPACE logs reader"
  [ "$(jq -c '.choices[0].logprobs.top_logprobs' <<<"$ANSWER")" = "$(jq -c '.choices[0].logprobs.top_logprobs' <<<"$first")" ] ||
    die "the answers differ" "kubectl -n $NAMESPACE logs reader"
  note "log-probabilities of both answers are equal"
}

# Each prompt tells once whether it is found: the reader has computed it then.
store_before() {
  SEED=$RANDOM
  local i
  for i in {1..20}; do ask writer $((SEED + i)) >/dev/null; done
  sleep 2
}

found_again() {
  local answer
  SEED=$((SEED + 1))
  answer=$(ask reader "$SEED") && [ "$(cached "$answer")" -gt 0 ] || return 1
  # shellcheck disable=SC2034
  FOUND="$(cached "$answer") of $TOKENS tokens of a prompt of before are cached on $READER"
}

look_around() {
  cat <<T
  kubectl -n $NAMESPACE port-forward pod/reader 8000 &
  curl -H 'Content-Type: application/json' -d '{"model": "tiny", "prompt": "w7 w8 w9"}' 127.0.0.1:8000/v1/completions
  curl -s 127.0.0.1:8000/metrics | grep kv_offload_tiering
T
}
