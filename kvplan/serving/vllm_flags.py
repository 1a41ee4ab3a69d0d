"""Every flag of `vllm serve`, and those of earlier releases: how each takes its value.

Spellings of one flag are joined by `|`, the first one names it. Drawn by `tests/serving/draw_flags.py`.

Source: vLLM 0.33.0, the parser of `vllm/entrypoints/common/cli_args.py`.
"""

from __future__ import annotations

VALUES = """
--additional-config --all2all-backend --allowed-headers --allowed-local-media-path --allowed-methods
--allowed-origins --anthropic-disabled-thinking-effort --api-server-count|-asc --attention-backend
--attention-config|-ac --aux-output-config --block-size --chat-template --chat-template-content-format
--code-revision --cohere-format --compilation-config|-cc --config --config-format --convert
--cp-kv-cache-interleave-size --cpu-distributed-timeout-seconds --cpu-offload-gb --custom-histogram-buckets
--data-parallel-address|-dpa --data-parallel-backend|-dpb --data-parallel-rank|-dpn --data-parallel-rpc-port|-dpp
--data-parallel-size-local|-dpl --data-parallel-size|-dp --data-parallel-start-rank|-dpr
--data-parallel-supervisor-port --dbo-decode-token-threshold --dbo-prefill-token-threshold --dcp-comm-backend
--dcp-kv-cache-interleave-size --decode-context-parallel-size|-dcp --default-chat-template-kwargs --default-mm-loras
--device-ids --diffusion-config|-dc --disable-access-log-for-endpoints --distributed-executor-backend
--distributed-timeout-seconds --download-dir --dp-supervisor-probe-failure-threshold
--dp-supervisor-probe-interval-s --dp-supervisor-probe-timeout-s --dp-sync-interval --dtype --ec-manager-config
--ec-transfer-config --elastic-ep-max-dp-size --engram-config --eplb-config --expert-placement-strategy
--fault-tolerance-config --fingerprint-mode --fingerprint-value --gdn-prefill-backend --generation-config
--gpu-memory-utilization|--device-memory-utilization --grpc-port --h11-max-header-count
--h11-max-incomplete-event-size --hf-config-path --hf-overrides --host --io-processor-plugin --ir-op-priority
--jit-monitor-mode --kda-decode-backend --kda-prefill-backend --kernel-config --kv-cache-dtype
--kv-cache-memory-bytes --kv-cache-metrics-sample --kv-events-config --kv-offloading-backend --kv-offloading-size
--kv-transfer-config --limit-mm-per-prompt --linear-backend --load-format --log-config-file --log-level
--logging-config --logprobs-mode --long-prefill-token-threshold --lora-dtype --mamba-backend --mamba-block-size
--mamba-cache-dtype --mamba-cache-mode --mamba-cache-philox-rounds --mamba-ssm-cache-dtype --mamba-ssu-algorithm
--master-addr --master-port --max-cpu-loras --max-cudagraph-capture-size --max-log-len --max-logprobs
--max-lora-cls-labels --max-lora-rank --max-loras --max-model-len --max-num-active-seqs --max-num-batched-tokens
--max-num-queued-reqs --max-num-queued-tokens --max-num-scheduled-tokens --max-num-seqs
--max-parallel-loading-workers --media-io-kwargs --middleware --mm-encoder-attn-backend --mm-encoder-attn-dtype
--mm-encoder-fp8-scale-path --mm-encoder-fp8-scale-save-margin --mm-encoder-fp8-scale-save-path --mm-encoder-tp-mode
--mm-hasher-algorithm --mm-ipc-gpu-memory-gb --mm-processor-cache-gb --mm-processor-cache-type --mm-processor-device
--mm-processor-kwargs --mm-shm-cache-max-object-size-mb --mm-tensor-ipc --model --model-class-overrides --model-impl
--model-loader-extra-config --moe-backend --nnodes|-n --node-rank|-r --num-gpu-blocks-override --offload-backend
--offload-group-size --offload-num-in-group --offload-prefetch-step --optimization-level --otlp-traces-endpoint
--override-generation-config --per-request-spec-decode-metrics --performance-mode --pipeline-parallel-size|-pp
--pooler-config --port --prefill-context-parallel-size|-pcp --prefill-schedule-interval
--prefix-cache-retention-interval --prefix-caching-hash-algo --prefix-match-unit --profiler-config
--pt-load-map-location --quantization-config --quantization|-q --reasoning-config --reasoning-effort-map
--reasoning-parser --reasoning-parser-plugin --renderer-num-workers --replayssm-buffer-len --response-role
--revision --root-path --runner --safetensors-load-strategy --safetensors-prefetch-block-size
--safetensors-prefetch-num-threads --scheduler-cls --scheduling-policy --seed --show-hidden-metrics-for-version
--shutdown-timeout --sleep-mode-backend --sparse-indexer-topk-backend --spec-method --spec-model --spec-tokens
--speculative-config|-sc --sse-keep-alive-interval --ssl-ca-certs --ssl-cert-reqs --ssl-certfile --ssl-ciphers
--ssl-keyfile --stream-interval --structured-outputs-config --tensor-parallel-size|-tp --tokenizer --tokenizer-mode
--tokenizer-revision --tool-call-parser --tool-parser-plugin --tool-server --tool-strict-level --ubatch-size --uds
--uvicorn-log-level --video-pruning-method --video-pruning-rate --watchdog-config --watermark --watermark-config
--weight-transfer-config --worker-cls --worker-extension-cls
"""

SWITCHES = """
--aggregate-engine-logging --allow-credentials|--no-allow-credentials
--allow-deprecated-quantization|--no-allow-deprecated-quantization --async-scheduling|--no-async-scheduling
--cohere-is-reasoning-model|--no-cohere-is-reasoning-model --cudagraph-metrics|--no-cudagraph-metrics
--data-parallel-external-lb|--no-data-parallel-external-lb|-dpe
--data-parallel-hybrid-lb|--no-data-parallel-hybrid-lb|-dph --data-parallel-multi-port-external-lb|-dpm
--dcp-q-replicate|--no-dcp-q-replicate
--disable-cascade-attn|--enable-cascade-attn|--no-disable-cascade-attn|--no-enable-cascade-attn
--disable-chunked-mm-input|--enable-chunked-mm-input|--no-disable-chunked-mm-input|--no-enable-chunked-mm-input
--disable-custom-all-reduce|--enable-custom-all-reduce|--no-disable-custom-all-reduce|--no-enable-custom-all-reduce
--disable-fastapi-docs|--enable-fastapi-docs|--no-disable-fastapi-docs|--no-enable-fastapi-docs
--disable-hybrid-kv-cache-manager|--enable-hybrid-kv-cache-manager|--no-disable-hybrid-kv-cache-manager|--no-enable-hybrid-kv-cache-manager
--disable-log-stats
--disable-nccl-for-dp-synchronization|--enable-nccl-for-dp-synchronization|--no-disable-nccl-for-dp-synchronization|--no-enable-nccl-for-dp-synchronization
--disable-sliding-window|--enable-sliding-window|--no-disable-sliding-window|--no-enable-sliding-window
--disable-uvicorn-access-log|--enable-uvicorn-access-log|--no-disable-uvicorn-access-log|--no-enable-uvicorn-access-log
--enable-auto-tool-choice|--disable-auto-tool-choice|--no-enable-auto-tool-choice|--no-disable-auto-tool-choice
--enable-batch-sharded-sampling|--disable-batch-sharded-sampling|--no-enable-batch-sharded-sampling|--no-disable-batch-sharded-sampling
--enable-chunked-prefill|--disable-chunked-prefill|--no-enable-chunked-prefill|--no-disable-chunked-prefill
--enable-cumem-allocator|--disable-cumem-allocator|--no-enable-cumem-allocator|--no-disable-cumem-allocator
--enable-dbo|--disable-dbo|--no-enable-dbo|--no-disable-dbo
--enable-elastic-ep|--disable-elastic-ep|--no-enable-elastic-ep|--no-disable-elastic-ep
--enable-ep-weight-filter|--disable-ep-weight-filter|--no-enable-ep-weight-filter|--no-disable-ep-weight-filter
--enable-eplb|--disable-eplb|--no-enable-eplb|--no-disable-eplb
--enable-expert-parallel|-ep|--disable-expert-parallel|--no-enable-expert-parallel|--no-disable-expert-parallel
--enable-fault-tolerance|--disable-fault-tolerance|--no-enable-fault-tolerance|--no-disable-fault-tolerance
--enable-flash-late-interaction|--disable-flash-late-interaction|--no-enable-flash-late-interaction|--no-disable-flash-late-interaction
--enable-flashinfer-autotune|--disable-flashinfer-autotune|--no-enable-flashinfer-autotune|--no-disable-flashinfer-autotune
--enable-force-include-usage|--disable-force-include-usage|--no-enable-force-include-usage|--no-disable-force-include-usage
--enable-hc-sp|--disable-hc-sp|--no-enable-hc-sp|--no-disable-hc-sp
--enable-layerwise-nvtx-tracing|--disable-layerwise-nvtx-tracing|--no-enable-layerwise-nvtx-tracing|--no-disable-layerwise-nvtx-tracing
--enable-log-deltas|--disable-log-deltas|--no-enable-log-deltas|--no-disable-log-deltas
--enable-log-outputs|--disable-log-outputs|--no-enable-log-outputs|--no-disable-log-outputs
--enable-log-requests|--disable-log-requests|--no-enable-log-requests|--no-disable-log-requests
--enable-logging-iteration-details|--disable-logging-iteration-details|--no-enable-logging-iteration-details|--no-disable-logging-iteration-details
--enable-lora|--disable-lora|--no-enable-lora|--no-disable-lora
--enable-mamba-cache-stochastic-rounding|--disable-mamba-cache-stochastic-rounding|--no-enable-mamba-cache-stochastic-rounding|--no-disable-mamba-cache-stochastic-rounding
--enable-mamba-shared-prefix-checkpoint|--disable-mamba-shared-prefix-checkpoint|--no-enable-mamba-shared-prefix-checkpoint|--no-disable-mamba-shared-prefix-checkpoint
--enable-mfu-metrics|--disable-mfu-metrics|--no-enable-mfu-metrics|--no-disable-mfu-metrics
--enable-mixed-moe-lora-format|--disable-mixed-moe-lora-format|--no-enable-mixed-moe-lora-format|--no-disable-mixed-moe-lora-format
--enable-mm-embeds|--disable-mm-embeds|--no-enable-mm-embeds|--no-disable-mm-embeds
--enable-moe-shared-loras|--disable-moe-shared-loras|--no-enable-moe-shared-loras|--no-disable-moe-shared-loras
--enable-nccl-comm-suspend|--disable-nccl-comm-suspend|--no-enable-nccl-comm-suspend|--no-disable-nccl-comm-suspend
--enable-offline-docs|--disable-offline-docs|--no-enable-offline-docs|--no-disable-offline-docs
--enable-per-request-metrics|--disable-per-request-metrics|--no-enable-per-request-metrics|--no-disable-per-request-metrics
--enable-prefix-caching|--disable-prefix-caching|--no-enable-prefix-caching|--no-disable-prefix-caching
--enable-prompt-embeds|--disable-prompt-embeds|--no-enable-prompt-embeds|--no-disable-prompt-embeds
--enable-prompt-tokens-details|--disable-prompt-tokens-details|--no-enable-prompt-tokens-details|--no-disable-prompt-tokens-details
--enable-request-id-headers|--disable-request-id-headers|--no-enable-request-id-headers|--no-disable-request-id-headers
--enable-return-routed-experts|--disable-return-routed-experts|--no-enable-return-routed-experts|--no-disable-return-routed-experts
--enable-scale-out|--disable-scale-out|--no-enable-scale-out|--no-disable-scale-out
--enable-server-load-tracking|--disable-server-load-tracking|--no-enable-server-load-tracking|--no-disable-server-load-tracking
--enable-shm-tensor-arena|--disable-shm-tensor-arena|--no-enable-shm-tensor-arena|--no-disable-shm-tensor-arena
--enable-sleep-mode|--disable-sleep-mode|--no-enable-sleep-mode|--no-disable-sleep-mode
--enable-ssl-refresh|--disable-ssl-refresh|--no-enable-ssl-refresh|--no-disable-ssl-refresh
--enable-tokenizer-info-endpoint|--disable-tokenizer-info-endpoint|--no-enable-tokenizer-info-endpoint|--no-disable-tokenizer-info-endpoint
--enable-tower-connector-lora|--disable-tower-connector-lora|--no-enable-tower-connector-lora|--no-disable-tower-connector-lora
--enable-trace-replay|--disable-trace-replay|--no-enable-trace-replay|--no-disable-trace-replay
--enforce-eager|--no-enforce-eager --exclude-tools-when-tool-choice-none|--no-exclude-tools-when-tool-choice-none
--fail-on-environ-validation|--no-fail-on-environ-validation --fully-sharded-loras|--no-fully-sharded-loras --grpc
--headless -h|--help --interleave-mm-strings|--no-interleave-mm-strings
--jit-monitor-verbose|--no-jit-monitor-verbose --kv-cache-metrics|--no-kv-cache-metrics
--kv-sharing-fast-prefill|--no-kv-sharing-fast-prefill --language-model-only|--no-language-model-only
--log-error-stack|--no-log-error-stack
--long-prefill-token-threshold-adaptive|--no-long-prefill-token-threshold-adaptive
--mm-device-do-normalize|--no-mm-device-do-normalize --mm-encoder-only|--no-mm-encoder-only
--monokernel|--no-monokernel --numa-bind|--no-numa-bind --ray-workers-use-nsight|--no-ray-workers-use-nsight
--return-sampling-mask|--no-return-sampling-mask --return-tokens-as-token-ids|--no-return-tokens-as-token-ids
--scheduler-reserve-full-isl|--no-scheduler-reserve-full-isl --skip-mm-profiling|--no-skip-mm-profiling
--skip-tokenizer-init|--no-skip-tokenizer-init --sleep-mode-offload-cudagraph|--no-sleep-mode-offload-cudagraph
--specialize-active-lora|--no-specialize-active-lora --swa-bounded-replay|--no-swa-bounded-replay
--tokens-only|--no-tokens-only --trust-remote-code|--no-trust-remote-code
--trust-request-chat-template|--no-trust-request-chat-template
--trust-request-mm-kwargs|--no-trust-request-mm-kwargs --use-fp64-gumbel|--no-use-fp64-gumbel
--use-replayssm|--no-use-replayssm --use-tqdm-on-load|--no-use-tqdm-on-load
"""

LISTS = """
--allowed-media-domains --api-key --collect-detailed-traces --cpu-offload-params --cudagraph-capture-sizes
--ignore-patterns --kv-cache-dtype-skip-layers --logits-processors --lora-modules --lora-target-modules
--numa-bind-cpus --numa-bind-nodes --offload-params --served-model-name --sleep-preserve-parameter-names
"""

OPTIONALS = """
--hf-token
"""

EARLIER_VALUES = """
--device --disable-logprobs-during-spec-decoding --eplb-step-interval --eplb-window-size --guided-decoding-backend
--logits-processor-pattern --long-lora-scaling-factors --lora-extra-vocab-size --max-context-len-to-capture
--max-long-partial-prefills --max-num-partial-prefills --max-prompt-adapter-token --max-prompt-adapters
--max-seq-len-to-capture --multi-step-stream-outputs --ngram-prompt-lookup-max --ngram-prompt-lookup-min
--num-lookahead-slots --num-redundant-experts --num-scheduler-steps --num-speculative-tokens
--override-attention-dtype --override-neuron-config --override-pooler-config --preemption-mode --prompt-adapters
--qlora-adapter-name-or-path --quantization-param-path --rope-scaling --rope-theta --scheduler-delay-factor
--spec-decoding-acceptance-method --speculative-disable-by-batch-size
--speculative-draft-tensor-parallel-size|-spec-draft-tp --speculative-max-model-len --speculative-model
--speculative-model-quantization --swap-space --task --tokenizer-pool-extra-config --tokenizer-pool-size
--tokenizer-pool-type --typical-acceptance-sampler-posterior-alpha --typical-acceptance-sampler-posterior-threshold
"""

EARLIER_SWITCHES = """
--calculate-kv-scales|--no-calculate-kv-scales --disable-async-output-proc --disable-frontend-multiprocessing
--disable-mm-preprocessor-cache --enable-bf16x3-router-gemm|--no-enable-bf16x3-router-gemm --enable-lora-bias
--enable-multimodal-encoder-data-parallel --enable-prompt-adapter --enable-reasoning --engine-use-ray
--eplb-log-balancedness|--no-eplb-log-balancedness
--guided-decoding-disable-additional-properties|--no-guided-decoding-disable-additional-properties
--guided-decoding-disable-any-whitespace|--no-guided-decoding-disable-any-whitespace
--guided-decoding-disable-fallback|--no-guided-decoding-disable-fallback --speculative-disable-mqa-scorer
--use-v2-block-manager --worker-use-ray
"""

EARLIER_LISTS = """
--cuda-graph-sizes
"""

EARLIER_OPTIONALS = """

"""
"""Flags that earlier releases had, from their parsers: 0.10.2, 0.13.0, 0.16.0, 0.19.1, 0.25.1, 0.29.0, 0.6.6.post1, 0.8.5."""
