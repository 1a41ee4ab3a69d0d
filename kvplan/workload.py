"""What is asked of a model: lengths, sequences, formats, policy and how ranks divide the work."""

from __future__ import annotations

from kvplan.errors import InputError
from kvplan.policy import Policy
from kvplan.policy.full import Full
from kvplan.record import Record

MOST_RANKS = 65_536


class Workload(Record):
    """One combination of every workload option; `context` counts prompt and generated tokens.

    k_dtype, v_dtype: storage formats, None for the model's own dtype.
    index_dtype: storage of sparse-attention index keys.
    prefix: tokens of the context that all sequences share and hold once.
    prefix_block: sharing works in whole blocks of this many tokens.
    encoder_tokens: tokens of the encoder's output, None for the spec's own.
    mtp: draft (multi-token prediction) layers held.
    """

    context: int
    batch: int = 1
    k_dtype: str | None = None
    v_dtype: str | None = None
    index_dtype: str = "fp8"
    policy: Policy = Full()
    policy_text: str = "full"
    tp: int = 1
    pp: int = 1
    ep: int = 1
    dp: int = 1
    dcp: int = 1
    mtp: int = 0
    prefix: int = 0
    prefix_block: int = 1
    encoder_tokens: int | None = None

    def check(self) -> None:
        """Refuse combinations no deployment can have.

        Raises: InputError naming the option and what it allows.
        """
        if self.tp % self.dcp:
            fix = f"--dcp takes a divisor of --tp {self.tp}, since DCP reuses the TP ranks"
            raise InputError(f"--dcp: found {self.dcp}, allowed divisors of --tp {self.tp}", fix)
        if self.tp * self.dp % self.ep:
            raise InputError(
                f"--ep: found {self.ep:,}, allowed divisors of --tp {self.tp:,} times --dp {self.dp:,}",
                "experts are divided over the ranks that tp and dp give: raise --tp or --dp with --ep",
            )
        if self.prefix > self.context:
            raise InputError(
                f"--prefix: found {self.prefix:,} tokens, allowed at most the context of {self.context:,}",
                "the prefix is part of the context: raise --ctx or lower --prefix",
            )
        if self.context < self.policy.least_context():
            raise InputError(
                f"--policy {self.policy_text}: needs a context of at least {self.policy.least_context():,} tokens",
                "the generated tokens are part of the context: raise --ctx",
            )

    @property
    def ranks(self) -> int:
        """Ranks of one replica."""
        return self.tp * self.pp
