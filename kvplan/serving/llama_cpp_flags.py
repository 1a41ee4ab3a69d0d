"""Every flag of llama.cpp's tools: how each takes its value.

Spellings of one flag are joined by `|`, the first one names it. Drawn by `tests/serving/draw_flags.py`.

Source: llama.cpp as of llama-cpp-python 0.3.36, `common/arg.cpp`.
"""

from __future__ import annotations

VALUES = """
--adaptive-decay --adaptive-target --api-key --api-key-file --api-prefix --attention -a|--alias -bf|--binary-file
-b|--batch-size --cache-reuse -Cb|--cpu-mask-batch --chat-template --chat-template-file --chat-template-kwargs
--chunk-separator --chunk-size --chunks --chunk|--from-chunk --cls-separator -cms|--checkpoint-min-step
--context-file --control-vector --control-vector-scaled --cors-headers --cors-methods --cors-origins -co|--color
--cpu-strict --cpu-strict-batch -cram|--cache-ram -Crb|--cpu-range-batch -Cr|--cpu-range -ctk|--cache-type-k
-ctv|--cache-type-v -ctxcp|--ctx-checkpoints|--swa-checkpoints -C|--cpu-mask -c|--ctx-size
-decay-epochs|--learning-rate-decay-epochs -dev|--device --diffusion-add-gumbel-noise --diffusion-alg-temp
--diffusion-algorithm --diffusion-block-length --diffusion-cfg-scale --diffusion-eps --diffusion-steps
--draft-min|--draft-n-min --draft|--draft-n|--draft-max --dry-allowed-length --dry-base --dry-multiplier
--dry-penalty-last-n --dry-sequence-breaker -dr|--docker-repo -dt|--defrag-thold --dynatemp-exp --dynatemp-range
--embd-normalize --embd-output-format --embd-separator -epochs|--epochs  -fitc|--fit-ctx
-fitp|--fit-print -fitt|--fit-target -fit|--fit --frequency-penalty -f|--file -gan|--grp-attn-n -gaw|--grp-attn-w
--grammar --grammar-file --hellaswag-tasks -hff|--hf-file -hft|--hf-token -hf|-hfr|--hf-repo --host
--image-max-tokens --image-min-tokens --image|--audio|--video --in-file --in-prefix --in-suffix
-jf|--json-schema-file --junk -j|--json-schema --keep --kv-unified-per-slot -lcd|--lookup-cache-dynamic
-lcs|--lookup-cache-static -lm|--load-mode --log-colors --log-file --log-prompts-dir --logits-output-dir --lora
--lora-scaled -lr-min|--learning-rate-min -lr|--learning-rate -lv|--verbosity|--log-verbosity -lzm|--lazy-mode
-l|--logit-bias --mcp-servers-config --mcp-servers-json --media-path --method -mg|--main-gpu --min-p --mirostat
--mirostat-ent --mirostat-lr -mmu|--mmproj-url -mm|--mmproj --models-dir --models-max --models-preset
--mtmd-batch-max-tokens --multiple-choice-tasks -mu|--model-url -m|--model -ncffn|--n-cpu-ffn -ncmoe|--n-cpu-moe
--negative-file -ngl|--gpu-layers|--n-gpu-layers -npl -npp -np|--parallel -ns|--sequences -ntg --numa
-n|--predict|--n-predict -ofreq|--output-frequency -opt|--optimizer -ot|--override-tensor --output-format
--override-kv -o|--output|--output-file --path --pca-batch --pca-iter --poll --poll-batch --pooling --port --pos
--positive-file --ppl-output-type --ppl-stride --presence-penalty --prio --prio-batch --prompt-cache
-ptc|--print-token-count -p|--prompt --reasoning-budget --reasoning-budget-message --reasoning-effort
--reasoning-format -rea|--reasoning --repeat-last-n --repeat-penalty --rope-freq-base --rope-freq-scale --rope-scale
--rope-scaling --rpc -r|--reverse-prompt --sampler-seq|--sampling-seq --samplers
--save-all-logits|--kl-divergence-base --save-frequency --server-base --sleep-idle-seconds --slot-save-path
-sm|--split-mode --spec-draft-cpu-mask-batch|-Cbd|--cpu-mask-batch-draft --spec-draft-cpu-mask|-Cd|--cpu-mask-draft
--spec-draft-cpu-range-batch|-Crbd|--cpu-range-batch-draft --spec-draft-cpu-range|-Crd|--cpu-range-draft
--spec-draft-cpu-strict-batch|--cpu-strict-batch-draft --spec-draft-cpu-strict|--cpu-strict-draft
--spec-draft-device|-devd|--device-draft --spec-draft-hf|-hfd|-hfrd|--hf-repo-draft
--spec-draft-model|-md|--model-draft --spec-draft-n-cpu-moe|--spec-draft-ncmoe|-ncmoed|--n-cpu-moe-draft
--spec-draft-n-max --spec-draft-n-min --spec-draft-ngl|-ngld|--gpu-layers-draft|--n-gpu-layers-draft
--spec-draft-override-tensor|-otd|--override-tensor-draft --spec-draft-p-min|--draft-p-min
--spec-draft-p-split|--draft-p-split --spec-draft-poll-batch|--poll-batch-draft --spec-draft-poll|--poll-draft
--spec-draft-prio-batch|--prio-batch-draft --spec-draft-prio|--prio-draft
--spec-draft-threads-batch|-tbd|--threads-batch-draft --spec-draft-threads|-td|--threads-draft
--spec-draft-type-k|-ctkd|--cache-type-k-draft --spec-draft-type-v|-ctvd|--cache-type-v-draft
--spec-ngram-map-k-min-hits --spec-ngram-map-k-size-m --spec-ngram-map-k-size-n --spec-ngram-map-k4v-min-hits
--spec-ngram-map-k4v-size-m --spec-ngram-map-k4v-size-n --spec-ngram-min-hits --spec-ngram-mod-n-match
--spec-ngram-mod-n-max --spec-ngram-mod-n-min --spec-ngram-simple-min-hits --spec-ngram-simple-size-m
--spec-ngram-simple-size-n --spec-ngram-size-m --spec-ngram-size-n --spec-synth-len --spec-synth-rates --spec-type
-sps|--slot-prompt-similarity --sse-ping-interval --ssl-cert-file --ssl-key-file -sysf|--system-prompt-file
-sys|--system-prompt -s|--seed --tags -tb|--threads-batch --temp|--temperature --tensor-filter --threads-http
--tools --tools-runtime --top-k --top-nsigma|--top-n-sigma --top-p -to|--timeout -ts|--tensor-split --tts-lang
--tts-speaker-file --typical|--typical-p -t|--threads -ub|--ubatch-size --ui-config-file|--webui-config-file
--ui-config|--webui-config -val-split|--val-split --video-ffmpeg-dir --video-fps --video-timestamp-interval
-wd|--weight-decay --winogrande-tasks --xtc-probability --xtc-threshold --yarn-attn-factor --yarn-beta-fast
--yarn-beta-slow --yarn-ext-factor --yarn-orig-ctx
"""

SWITCHES = """
-ag|--agent|-no-ag|--no-agent -bs|--backend-sampling --cache-idle-slots|--no-cache-idle-slots
--cache-prompt|--no-cache-prompt -cb|--cont-batching|-nocb|--no-cont-batching --check --check-tensors
-cl|--cache-list -cmoe|--cpu-moe -cnv|--conversation|-no-cnv|--no-conversation --completion-bash
--context-shift|--no-context-shift --cors-credentials|--no-cors-credentials --dflash --diffusion-visual
--display-prompt|--no-display-prompt --eagle3 --embd-gemma-default --embedding|--embeddings -e|--escape|--no-escape
--fim-qwen-1.5b-default --fim-qwen-14b-spec --fim-qwen-30b-default --fim-qwen-3b-default --fim-qwen-7b-default
--fim-qwen-7b-spec --gpt-oss-120b-default --gpt-oss-20b-default --hellaswag -h|--help|--usage --ids
-if|--interactive-first --ignore-eos --in-prefix-bos -i|--interactive --jinja|--no-jinja --kl-divergence
-kvo|--kv-offload|-nkvo|--no-kv-offload -kvu|--kv-unified|-no-kvu|--no-kv-unified --list-devices --log-disable
--log-jsonl|--no-log-jsonl --log-prefix|--no-log-prefix --log-timestamps|--no-log-timestamps
--lora-init-without-apply --metrics -mli|--multiline-input --mmproj-auto|--no-mmproj|--no-mmproj-auto
--mmproj-offload|--no-mmproj-offload --models-autoload|--no-models-autoload --mtp --multiple-choice --no-bos
--no-host --no-parse-special --offline --op-offload|--no-op-offload --parse-special --perf|--no-perf --ppl|--no-ppl
-pps --prefill-assistant|--no-prefill-assistant --process-output --prompt-cache-all --prompt-cache-ro --props
--reasoning-preserve|--no-reasoning-preserve --repack|-nr|--no-repack --rerank|--reranking --reuse-port
--save-logits --show-count --show-statistics --show-timings|--no-show-timings --simple-io
--skip-chat-parsing|--no-skip-chat-parsing --slots|--no-slots --spec-default
--spec-draft-backend-sampling|--no-spec-draft-backend-sampling --spec-draft-cpu-moe|-cmoed|--cpu-moe-draft
--spm-infill -sp|--special --stdin -st|--single-turn --swa-full -tgs
--ui-mcp-proxy|--webui-mcp-proxy|--no-ui-mcp-proxy|--no-webui-mcp-proxy --ui|--webui|--no-ui|--no-webui
--verbose-prompt --version --vision-gemma-12b-default --vision-gemma-4b-default -v|--verbose|--log-verbose
--warmup|--no-warmup --winogrande
"""

PAIRS = """
--control-vector-layer-range
"""

EARLIER_VALUES = """
--ctx-size-draft|-cd
"""

EARLIER_SWITCHES = """
--mlock --mmap|--no-mmap --direct-io|-dio|--no-direct-io|-ndio --log-enable
"""
"""Flags that earlier releases had, from `common/arg.cpp` of 2024 and 2025."""

OPTIONALS = """
-fa|--flash-attn
"""
"""A switch until August 2025; since then it takes on, off or auto."""
