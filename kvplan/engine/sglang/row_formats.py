"""How many bytes one token takes in one layer of a pool, by SGLang's `kv_cache_dtype`.

- bf16, fp16, fp8: heads x width x item, K and V apart; a latent is one row.
- fp8 with a sparse-attention index: the latent is packed, lora fp8 bytes + 4 bytes of scale per 128 + rope in bf16,
  unless the chosen kernels read raw rows.
- mxfp8: one scale byte per 32 numbers.
- nvfp4, fp4_mx_block16: half a byte per number and one scale byte per 16; V is as wide as K there.

Worked: 8 heads of 128 in bf16 are 2,048 bytes of K; a DeepSeek-V3.2 latent is 1,152 bytes in bf16, 656 in fp8.

Source: SGLang 0.5.23 srt/mem_cache/memory_pool.py, srt/mem_cache/kv_cache_configurator.py and
srt/layers/quantization/fp4_kv_cache_quant_method.py, executed.
"""

from __future__ import annotations

from kvplan.errors import InputError
from kvplan.record import Record
from kvplan.units import ceil_div

ITEM = {"auto": 2, "bf16": 2, "bfloat16": 2, "fp16": 2, "fp8_e4m3": 1, "fp8_e5m2": 1, "mxfp8": 1}
FOUR_BIT = ("nvfp4", "fp4_mx_block16")
DTYPES = ("auto", "fp8_e5m2", "fp8_e4m3", "mxfp8", "bf16", "bfloat16", "nvfp4", "fp4_mx_block16")
"""What `--kv-cache-dtype` takes."""
INDEX_KEY, INDEX_SCALE = 128, 4
INDEX_BYTES = INDEX_KEY + INDEX_SCALE


class Rows(Record):
    """What one token has in one layer on one rank, in numbers: heads of K and V, or one latent.

    width: of a K head, or of the whole latent. rope: the latent's part that carries positions. packed: the latent
    is packed when its numbers are fp8.
    """

    heads: int
    width: int
    v_width: int
    latent: bool = False
    rope: int = 0
    packed: bool = False

    def bytes(self, dtype: str) -> tuple[int, int]:
        """(bytes of K or of the latent, bytes of V) of one token, scales included.

        >>> Rows(8, 128, 128).bytes("auto"), Rows(1, 576, 0, latent=True, rope=64, packed=True).bytes("fp8_e4m3")
        ((2048, 2048), (656, 0))

        Raises: InputError for a width that the format's scales do not divide.
        """
        if self.latent:
            return self._latent_bytes(dtype), 0
        k, v = self.heads * self.width, self.heads * self.v_width
        if dtype in FOUR_BIT:
            self._divides(dtype, 16, self.width)
            return (k // 2 + k // 16,) * 2
        if dtype == "mxfp8":
            self._divides(dtype, 32, self.width, self.v_width)
            return k + k // 32, v + v // 32
        return k * ITEM[dtype], v * ITEM[dtype]

    def workspace_bytes(self, dtype: str, dequantised: bool) -> int:
        """Bytes of K (and again of V) per token that all layers share: fp8 rows for prefills that do not read fp4."""
        return self.heads * self.width if dtype == "nvfp4" and dequantised and not self.latent else 0

    def _latent_bytes(self, dtype: str) -> int:
        if dtype in FOUR_BIT:
            self._divides(dtype, 16, self.width)
            return self.width // 2 + self.width // 16
        if self.packed and dtype == "fp8_e4m3":
            lora = self.width - self.rope
            self._divides(dtype, 128, lora)
            return lora + lora // 128 * INDEX_SCALE + self.rope * 2
        return self.width * ITEM[dtype]

    def _divides(self, dtype: str, block: int, *widths: int) -> None:
        wrong = [width for width in widths if width % block]
        if wrong:
            raise InputError(
                f"-E kv_cache_dtype={dtype}: found {wrong[0]} numbers, allowed multiples of {block}",
                "-E kv_cache_dtype=fp8_e4m3",
            )


def pages(tokens: int, page_size: int) -> int:
    """Pages that hold `tokens`."""
    return ceil_div(tokens, page_size)
