"""Immutable values with named fields: what a frozen dataclass is, at a hundredth of its cost to define.

A frozen dataclass compiles six methods per class, 0.8 ms each time a command starts; the 40 records
behind one `kvplan size` would cost more than the answer. A `Record` shares one set of methods.
"""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn, Self, dataclass_transform


@dataclass_transform(frozen_default=True)
class Record:
    """Base of immutable values: annotated names are fields, in order; assigned ones have defaults.

    >>> class Point(Record):
    ...     x: int
    ...     y: int = 0
    >>> Point(1), Point(1) == Point(1, 0), Point(1).replace(y=5)
    (Point(x=1, y=0), True, Point(x=1, y=5))
    """

    __match_args__: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        own = cls.__dict__.get("__annotations__", {})
        fields = tuple(name for name, kind in own.items() if not str(kind).startswith("ClassVar"))
        type.__setattr__(cls, "__match_args__", fields)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        names = self.__match_args__
        if len(args) > len(names):
            raise TypeError(f"{type(self).__name__} takes {len(names)} values, {len(args)} given")
        values = self.__dict__
        values.update(zip(names, args, strict=False))
        if not kwargs and len(args) == len(names):
            self.check()
            return
        for name in names[len(args) :]:
            if name in kwargs:
                values[name] = kwargs.pop(name)
            elif hasattr(type(self), name):
                values[name] = getattr(type(self), name)
            else:
                raise TypeError(f"{type(self).__name__} needs {name}")
        if kwargs:
            raise TypeError(f"{type(self).__name__} has no field {next(iter(kwargs))}")
        self.check()

    def check(self) -> None:
        """Refuse values that contradict each other; records that can be wrong override it."""

    def replace(self, **changes: Any) -> Self:
        """The same value with some fields changed."""
        return type(self)(**{**self.__dict__, **changes})

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.__dict__ == self.__dict__

    def __hash__(self) -> int:
        return hash((type(self), *self.__dict__.values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__dict__.items())})"
