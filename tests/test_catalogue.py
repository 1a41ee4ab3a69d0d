"""Files are found by name, alias and hub id, without reading them whole, the user's own first."""

from __future__ import annotations

from pathlib import Path

import pytest
from strategies import SPECS

from kvplan.catalogue import HEAD_BYTES, SHIPPED_GPUS, find, model_named, names, read_text, spec_folders
from kvplan.errors import InputError

TEXT = "name: {name}\naliases: [{aliases}]\nhub: {hub}\nlayers: 2\nattention: {{type: mqa, heads: 2, kv_heads: 1, head_dim: 8}}\n"


def put(folder: Path, name: str, aliases: str = "", hub: str = "me/x", file: str = "") -> None:
    """Write a small spec."""
    folder.mkdir(exist_ok=True)
    (folder / f"{file or name}.yaml").write_text(TEXT.format(name=name, aliases=aliases, hub=hub))


def test_every_shipped_name_alias_and_hub_id_finds_its_file() -> None:
    """Whatever the file says it answers to, it answers to."""
    for folder in (SPECS, SHIPPED_GPUS):
        for name, aliases, path in names([folder]):
            assert path.stem == name
            for word in (name, *aliases):
                found = find(word, [folder])
                assert found is not None
                assert path == found.path, word


def test_no_word_means_two_models() -> None:
    """Names and aliases are unique over all shipped specs."""
    words = [word for name, aliases, _ in names([SPECS]) for word in (name, *aliases)]
    assert sorted(set(words)) == sorted(words)


def test_what_a_file_answers_to_stands_within_its_first_bytes() -> None:
    """Searching reads heads of files alone, so aliases and hub id have to be there."""
    for folder in (SPECS, SHIPPED_GPUS):
        for path in folder.glob("*.yaml"):
            text = path.read_bytes()
            for key in (b"\naliases:", b"\nhub:"):
                at = text.find(key)
                assert at < 0 or text.index(b"\n", at + 1) <= HEAD_BYTES, path.name


@pytest.mark.parametrize(
    ("text", "through"),
    [
        ("mine", "name"),
        ("MINE", "name"),
        (" mine ", "name"),
        ("my-own", "alias"),
        ("Own-Two", "alias"),
        ("Me/Mine", "hub id"),
    ],
)
def test_a_file_is_found_in_every_way(tmp_path: Path, text: str, through: str) -> None:
    """By its name, either alias or its hub id, in any case."""
    put(tmp_path, "mine", 'my-own, "own-two"', "me/Mine")
    found = find(text, [tmp_path])
    assert found is not None
    assert ("mine", through) == (found.name, found.through)


def test_the_name_inside_counts_where_the_file_is_called_otherwise(tmp_path: Path) -> None:
    """A spec called `inside` in a file `outside.yaml` answers to both."""
    put(tmp_path, "inside", file="outside")
    assert find("inside", [tmp_path]) is not None
    assert find("outside", [tmp_path]) is not None


def test_the_first_folder_wins(tmp_path: Path) -> None:
    """By name, and by alias too."""
    put(tmp_path / "a", "mine", "shared")
    put(tmp_path / "b", "mine", "shared")
    for word in ("mine", "shared"):
        found = find(word, [tmp_path / "a", tmp_path / "b"])
        assert found is not None
        assert tmp_path / "a" == found.path.parent


@pytest.mark.parametrize(
    "text", ["", " ", "a" * 101, "a/b/c", "UPPER CASE", "../mine", "mine.yaml/..", "\0", "*", "[a-z]", "é"]
)
def test_what_is_no_name_is_not_looked_for(tmp_path: Path, text: str) -> None:
    """No pattern, no path, no control character reaches the file system."""
    put(tmp_path, "mine")
    assert find(text, [tmp_path]) is None


def test_an_unknown_name_gets_the_nearest_three(tmp_path: Path) -> None:
    """Each model once, however many of its aliases are near."""
    for name in ("model-a", "model-b", "model-c", "model-d"):
        put(tmp_path, name, f"{name}-x, {name}-y")
    with pytest.raises(InputError) as caught:
        model_named("model-z", str(tmp_path))
    found = caught.value.fix.removeprefix("nearest: ").split(", ")
    assert 3 == len(found) == len(set(found))
    assert set(found) <= {"model-a", "model-b", "model-c", "model-d"}


def test_a_folder_that_is_not_there_is_an_error() -> None:
    """Silence would look like an empty folder."""
    with pytest.raises(InputError, match="is not a folder"):
        spec_folders("/no/such/folder")


def test_other_files_in_a_folder_are_left_alone(tmp_path: Path) -> None:
    """Only .yaml and .yml are specs."""
    put(tmp_path, "mine")
    (tmp_path / "notes.txt").write_text("name: notes")
    (tmp_path / "two.yml").write_text(TEXT.format(name="two", aliases="", hub="a/b"))
    assert ["mine", "two"] == [name for name, _, _ in names([tmp_path])]


def test_a_small_file_is_read_as_text(tmp_path: Path) -> None:
    """Without its byte-order mark."""
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbfabc")
    assert "abc" == read_text(tmp_path / "a")
