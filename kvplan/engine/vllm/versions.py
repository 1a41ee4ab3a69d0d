"""What changed between vLLM releases, as profiles that the rules ask.

Worked: 40 GiB of Gemma-3-27B at 131,072 tokens: vLLM 0.33 reserves windows for the tokens in flight (two batches
of 8,192 with asynchronous scheduling) and prints 291,658 tokens; one batch, as before 0.27.1, gives 368,540.

Source: wheels of vLLM 0.16.0, 0.19.1, 0.20.2, 0.21.0, 0.25.1, 0.27.1, 0.29.0 and 0.33.0, the same functions compared.
"""

from __future__ import annotations

from fractions import Fraction

from kvplan.record import Record


class Profile(Record):
    """One release's rules where they differ.

    tokens_by_concurrency: the token line is concurrency x model length; before, blocks x tokens per block.
    group_ratio: below this ratio of most to fewest layers, groups are as large as the larger.
    in_flight: windows are reserved for the tokens of every batch in flight; before, of one batch.
    utilization: the share of a card it takes by default. graphs: CUDA graphs are taken from that share.
    caches_hybrids: models with states keep prefixes by default.
    """

    name: str
    tokens_by_concurrency: bool = True
    group_ratio: Fraction = Fraction(3, 2)
    in_flight: bool = True
    utilization: Fraction = Fraction(92, 100)
    graphs: bool = True
    caches_hybrids: bool = True


PROFILES = {
    p.name: p
    for p in (
        Profile(
            "0.19",
            tokens_by_concurrency=False,
            in_flight=False,
            utilization=Fraction(9, 10),
            graphs=False,
            caches_hybrids=False,
        ),
        Profile("0.25", in_flight=False, caches_hybrids=False),
        Profile("0.33"),
    )
}
