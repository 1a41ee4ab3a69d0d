"""A model spec as the YAML text that reads back as the same spec."""

from __future__ import annotations

from typing import Any

import yaml

from kvplan.spec import Layer, ModelSpec


def spec_values(spec: ModelSpec) -> dict[str, Any]:
    """The plain values of `spec`, in the order a person writes them."""
    written = spec.fields.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    last: dict[str, Any] = {
        key: written.pop(key) for key in ("notes", "sources", "confidence", "expect") if key in written
    }
    written["dtype"] = spec.fields.dtype
    names = _names(spec)
    if len(names) == 1:
        layers: dict[str, Any] = {"layers": spec.layer_count, "attention": _kinds(spec.runs[0][1])}
    else:
        pattern = [names[layer] for count, layer in spec.runs for _ in range(count)]
        layers = {
            "layers": spec.layer_count,
            "pattern": _shortest(pattern),
            "attention": {name: _kinds(layer) for layer, name in names.items()},
        }
    draft = {"draft": {"attention": _kinds(spec.draft)}} if spec.draft is not None and len(names) > 1 else {}
    if spec.draft is not None and len(names) == 1 and spec.draft.kinds != spec.runs[0][1].kinds:
        draft = {"draft": {"attention": _kinds(spec.draft)}}
    return {**written, **layers, **draft, **last}


def spec_yaml(spec: ModelSpec) -> str:
    """`spec` as YAML text.

    >>> from kvplan.spec import parse_spec
    >>> from kvplan.yaml_text import load_yaml
    >>> values = {"name": "tiny", "layers": 2, "attention": {"type": "mqa", "heads": 4, "kv_heads": 1, "head_dim": 8}}
    >>> print(spec_yaml(parse_spec(values, "tiny")), end="")
    name: tiny
    dtype: bf16
    layers: 2
    attention: {type: mqa, heads: 4, kv_heads: 1, head_dim: 8}
    """
    return yaml.dump(
        spec_values(spec), Dumper=_Dumper, sort_keys=False, default_flow_style=None, width=110, allow_unicode=True
    )


def _shortest(pattern: list[str]) -> list[str]:
    """The shortest run of names that repeats over the layers, cut at the end, to `pattern`."""
    count = len(pattern)
    for period in range(1, count):
        if all(pattern[i] == pattern[i % period] for i in range(count)):
            return pattern[:period]
    return pattern


def _names(spec: ModelSpec) -> dict[Layer, str]:
    """A name for each distinct layer, as the pattern writes it."""
    names: dict[Layer, str] = {}
    for _, layer in spec.runs:
        names.setdefault(layer, layer.name.replace(" ", "-"))
    return names


def _kinds(layer: Layer) -> Any:
    dumped = [{"type": kind.type, **_fields(kind)} for kind in layer.kinds]
    return dumped[0] if len(dumped) == 1 else dumped


def _fields(kind: Any) -> dict[str, Any]:
    fields: dict[str, Any] = kind.model_dump(exclude_none=True, exclude_defaults=True)
    fields.pop("type", None)
    return fields


class _Dumper(yaml.SafeDumper):
    """Never writes anchors, which the reader refuses."""

    def ignore_aliases(self, data: Any) -> bool:
        """No value is shared."""
        return True
