# shellcheck shell=bash
# SGLang in the demo: its own server. Sourced by demo.sh, whose variables it uses.

# shellcheck disable=SC2034  # demo.sh and servers.sh read them
{
  ENGINE_NAME=SGLang ENGINE_WHAT="SGLang's server for a CPU" ENGINE_ARGS=13 ENGINE_CONTAINER=sglang
  ASKED=/generate
  # Of the cached tokens, those that were neither in the GPU's pool nor in the server's host pool.
  ALL_TOKENS=.meta_info.prompt_tokens CACHED_TOKENS=.meta_info.cached_tokens_details.storage
  COMPUTED='[.output_ids, .meta_info.output_top_logprobs]'
}
# shellcheck source=servers.sh
. "$HERE/demo/servers.sh"
RELEASE=$(newest_release sglang)

request() {
  jq -c '{input_ids: ., sampling_params: {max_new_tokens: 8, temperature: 0, ignore_eos: true}, return_logprob: true, top_logprobs_num: 5}'
}

# What a user writes: SGLang's own command line, and one label. A CPU needs the folder sglang_cpu, too.
engine_manifest() {  # engine_manifest NAME NODE
  cat <<Y
apiVersion: v1
kind: Pod
metadata:
  name: $1
  labels: {peercache.io/inject: $CLUSTER}
spec:
  nodeSelector: {kubernetes.io/hostname: $2}
  tolerations: [{operator: Exists}]
  terminationGracePeriodSeconds: 0
  containers:
  - name: sglang
    image: $(image_name engine)
    command: [/opt/engines/venv/bin/python, -m, sglang.launch_server]
    args: [--model-path, /model, --served-model-name, tiny, --host, 0.0.0.0, --port, "8000", --device, cpu, --max-total-tokens, "16384", --sleep-on-idle]
    env:
    - {name: PYTHONPATH, value: "/opt/engines/releases/sglang-$RELEASE:/opt/sglang_cpu"}
    - {name: HF_HUB_OFFLINE, value: "1"}
    - {name: HOME, value: /tmp}
    - {name: OMP_NUM_THREADS, value: "1"}
    readinessProbe:
      httpGet: {path: /health, port: 8000}
      periodSeconds: 5
      timeoutSeconds: 5
      failureThreshold: 10
    volumeMounts:
    - {name: packages, mountPath: /opt/engines, readOnly: true}
    - {name: packages, mountPath: /model, subPath: model, readOnly: true}
    - {name: platform, mountPath: /opt/sglang_cpu, readOnly: true}
  volumes:
  - {name: packages, hostPath: {path: $ENGINES, type: Directory}}
  - {name: platform, hostPath: {path: $HERE/engines/sglang_cpu, type: Directory}}
Y
}

look_around() {
  cat <<T
  kubectl -n $NAMESPACE port-forward pod/reader 8000 &
  curl -H 'Content-Type: application/json' -d '{"model": "tiny", "prompt": "w7 w8 w9"}' 127.0.0.1:8000/v1/completions
T
}
