"""What changed between vLLM releases, as profiles that the rules ask.

A profile is called after the last release that was seen to follow it.

Worked: 40 GiB of Gemma-3-27B at 131,072 tokens: vLLM 0.33 reserves windows for the tokens in flight (two batches
of 8,192 with asynchronous scheduling) and prints 291,658 tokens; one batch, as up to 0.25, gives 368,540.

Source: wheels of vLLM 0.16.0, 0.19.1, 0.20.2, 0.21.0, 0.23.0, 0.25.1, 0.27.1, 0.29.0 and 0.33.0, the same functions
read, and their planners executed (tests/data/vllm_versions.yaml).
"""

from __future__ import annotations

from fractions import Fraction

from kvplan.record import Record


class Profile(Record):
    """One release's rules where they differ from the newest.

    tokens_by_concurrency: the token line is concurrency x model length; before, blocks x tokens per block.
    group_ratio: below this ratio of most to fewest layers, groups are as large as the larger.
    in_flight: windows are reserved for the tokens of every batch in flight; before, of one batch.
    utilization: the share of a card it takes by default. graphs: CUDA graphs are taken from that share.
    caches_hybrids: models with states keep prefixes by default, at two states per request.
    null_block: the start-up check and the automatic model length leave a block out.
    pads: pages that do not divide the largest are padded; None where that depends on the attention backend.
    pads_states: so are pages of states.
    window_blocks: blocks of windows are the server's, the backend's smallest, or its longest that fits.
    latent_grid: blocks of latents beside states are multiples of this.
    full_fallback: latents beside windows that cannot be padded are allocated in full.
    checkpoints: prefills export states. drafts_extend_windows: chained draft modules keep tokens below a window.
    newest: formats of some layers only, and compressed entries, are counted.
    """

    name: str
    tokens_by_concurrency: bool = True
    group_ratio: Fraction = Fraction(3, 2)
    in_flight: bool = True
    utilization: Fraction = Fraction(92, 100)
    graphs: bool = True
    caches_hybrids: bool = True
    null_block: bool = True
    pads: bool | None = True
    pads_states: bool = True
    window_blocks: str = "longest"
    latent_grid: int = 128
    full_fallback: bool = True
    checkpoints: bool = True
    drafts_extend_windows: bool = True
    newest: bool = True


def _profiles() -> tuple[Profile, ...]:
    newest = Profile("0.33")
    v29 = newest.replace(name="0.29", window_blocks="smallest", checkpoints=False, newest=False)
    v27 = v29.replace(name="0.27", null_block=False, pads=None, full_fallback=False, drafts_extend_windows=False)
    v25 = v27.replace(name="0.25", in_flight=False, caches_hybrids=False, pads_states=False, latent_grid=1)
    v23 = v25.replace(name="0.23", pads=False, window_blocks="server")
    v19 = v23.replace(name="0.19", tokens_by_concurrency=False, utilization=Fraction(9, 10), graphs=False)
    v16 = v19.replace(name="0.16", group_ratio=Fraction(5, 4))
    return v16, v19, v23, v25, v27, v29, newest


PROFILES = {profile.name: profile for profile in _profiles()}
