"""The flags that an engine's own parser knows, drawn from its source into `tests/data/serve_flags.json`.

    PYTHONPATH=<unzipped wheel> python tests/serving/draw_flags.py vllm 0.33.0
    PYTHONPATH=<unzipped wheel> python tests/serving/draw_flags.py sglang 0.5.23
    python tests/serving/draw_flags.py mlx 0.32.2 mlx_lm/server.py
    python tests/serving/draw_flags.py llama.cpp <build> common/arg.cpp
    python tests/serving/draw_flags.py trtllm <commit> tensorrt_llm/commands/serve.py
    python tests/serving/draw_flags.py earlier:vllm 0.10.2 <unzipped wheel>/vllm
    python tests/serving/draw_flags.py earlier:sglang 0.4.10 <unzipped wheel>/sglang

The first two import the engine, in an environment that has what its parser imports; the others read
the source's text. `earlier:` adds what an older release had and the newest has not. What changes shows as a difference of the data file; a test then says which
flags `kvplan/serving` does not know, or reads with the wrong number of values.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "data" / "serve_flags.json"
NEGATIVE = re.compile(r"--no-|--disable-")


def kind(action: argparse.Action) -> str:
    """How many words a flag takes: value, switch, optional or list."""
    if action.nargs in ("+", "*"):
        return "list"
    if action.nargs == "?":
        return "optional"
    return "switch" if action.nargs == 0 else "value"


def of_parser(parser: argparse.ArgumentParser) -> list[list[Any]]:
    """[spellings, kind] of every flag of an argparse parser, hidden opposites included."""
    found = []
    for action in parser._actions:
        if not action.option_strings:
            continue
        names = list(action.option_strings)
        if isinstance(action, argparse.BooleanOptionalAction):
            names += [f"--no-{name[2:]}" for name in names if name.startswith("--") and not name.startswith("--no-")]
        found.append([list(dict.fromkeys(names)), kind(action)])
    return found


def vllm(_: str | None) -> list[list[Any]]:
    """`vllm serve`, as vLLM's own parser lists it."""
    from vllm.entrypoints.common.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    return of_parser(make_arg_parser(FlexibleArgumentParser()))


def sglang(_: str | None) -> list[list[Any]]:
    """`sglang.launch_server`, as SGLang's own parser lists it."""
    from sglang.srt.server_args import ServerArgs

    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    return of_parser(parser)


def mlx(path: str | None) -> list[list[Any]]:
    """`mlx_lm.server`: its calls of `add_argument`, read as text."""
    found = []
    for call in ast.walk(ast.parse(Path(path or "").read_text("utf-8"))):
        if isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "add_argument":
            names = [a.value for a in call.args if isinstance(a, ast.Constant)]
            switch = any(k.arg == "action" for k in call.keywords)
            found.append([names, "switch" if switch else "value"])
    return found


def llama_cpp(path: str | None) -> list[list[Any]]:
    """llama.cpp's tools: the entries of arg.cpp; one whose handler takes a value takes a word, unless it may be negated."""
    text = Path(path or "").read_text("utf-8")
    entry = re.compile(r"common_arg\(\s*\{([^}]*)\},\s*(\{[^}]*\})?")
    handler = re.compile(r"\[[^\]]*\]\(common_params &[^),]*(,[^,)]*)?(,[^,)]*)?\)")
    found = []
    for match in entry.finditer(text):
        names = re.findall(r'"(-[^"]*)"', match[1] + (match[2] or ""))
        takes = handler.search(text, match.end())
        if names and takes is not None:
            words = 0 if match[2] else 2 if takes[2] else 1 if takes[1] else 0
            found.append([names, ("switch", "value", "two")[words]])
    return found


def trtllm(path: str | None) -> list[list[Any]]:
    """`trtllm-serve serve`: the click options above the function `serve`."""
    tree = ast.parse(Path(path or "").read_text("utf-8"))
    serve = next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "serve")
    found = []
    for call in serve.decorator_list:
        if isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "option":
            names = [a.value for a in call.args if isinstance(a, ast.Constant) and str(a.value).startswith("-")]
            switch = any(k.arg == "is_flag" for k in call.keywords)
            found.append([names, "switch" if switch else "value"])
    return found


PARSERS = (
    "engine/arg_utils.py",
    "entrypoints/openai/cli_args.py",
    "srt/server_args.py",
)
"""Where earlier releases add their flags, in the package of vLLM or SGLang."""


def earlier(package: str) -> list[list[Any]]:
    """The flags that an earlier release's sources add, read as text; kinds follow from the fields' annotations."""
    root = Path(package)
    sources = [root / name for name in PARSERS if (root / name).is_file()]
    annotated: dict[str, str] = {}
    for path in [*root.glob("config*.py"), *root.glob("config/*.py"), *sources]:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                annotated.setdefault(node.target.id, ast.unparse(node.annotation))
    calls = [
        node
        for path in sources
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument"
    ]
    found = []
    for call in calls:
        names = [a.value for a in call.args if isinstance(a, ast.Constant) and str(a.value).startswith("-")]
        if not names:
            continue
        kind = _kind_in_text(call, annotated)
        action = next((ast.unparse(k.value) for k in call.keywords if k.arg == "action"), "")
        if kind == "switch" and "store_true" not in action and "True" not in action:
            names += [f"--no-{name[2:]}" for name in names if name.startswith("--")]
        found.append([names, kind])
    return found


def _kind_in_text(call: ast.Call, annotated: dict[str, str]) -> str:
    given = {k.arg: ast.unparse(k.value) for k in call.keywords if k.arg}
    if "action" in given:
        return "switch" if "True" in given["action"].title() or "Optional" in given["action"] else "value"
    if "nargs" in given:
        return "optional" if "?" in given["nargs"] else "list"
    spread = next((ast.unparse(k.value) for k in call.keywords if k.arg is None), "")
    field = re.search(r"\[['\"](\w+)['\"]\]", spread)
    kind = annotated.get(field[1], "") if field else ""
    if re.match(r"(Optional\[)?bool", kind):
        return "switch"
    return "list" if re.match(r"(Optional\[)?(list|List|tuple)", kind) else "value"


DRAWERS = {"vllm": vllm, "sglang": sglang, "mlx": mlx, "llama.cpp": llama_cpp, "trtllm": trtllm}


def main() -> None:
    """Draw one engine's flags into the data file."""
    engine, version, *path = sys.argv[1:]
    known = json.loads(DATA.read_text("utf-8")) if DATA.exists() else {}
    if engine.startswith("earlier:"):
        newest = known[engine.removeprefix("earlier:")]["flags"]
        have = {name for names, _ in newest for name in names}
        flags = known.get(engine, {}).get("flags", [])
        have |= {name for names, _ in flags for name in names}
        flags += [flag for flag in earlier(path[0]) if not have & set(flag[0])]
        version = ", ".join(sorted({*known.get(engine, {}).get("version", version).split(", "), version}))
    else:
        flags = DRAWERS[engine](path[0] if path else None)
    flags = sorted(flags)
    known[engine] = {"version": version, "flags": flags}
    rows = ",\n".join(
        f' {json.dumps(name)}: {{"version": {json.dumps(entry["version"])}, "flags": [\n'
        + ",\n".join(f"  {json.dumps(flag)}" for flag in entry["flags"])
        + "\n ]}"
        for name, entry in sorted(known.items())
    )
    DATA.write_text(f"{{\n{rows}\n}}\n", encoding="utf-8")
    print(f"{engine} {version}: {len(flags)} flags")


if __name__ == "__main__":
    main()
