"""Requests to the hub, bounded in bytes, seconds and redirects, and careful whom the token is told.

The connection is the hub client's own session, so that proxies, certificates and tokens are what the user set up
for it. Its downloads are not used: they retry for minutes, and trust the lengths they are told.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit

from kvplan.errors import InputError, MissingError, printable, quoted

SECONDS_TO_ANSWER = 10.0
SECONDS_IN_ALL = 180.0
MOST_REDIRECTS = 5
THREADS = 16
TRIES = 2
HUB = "https://huggingface.co"
TRUE = {"1", "ON", "YES", "TRUE"}

_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})")


class RefusedError(Exception):
    """The hub said no; who asked knows for what.

    code: what the hub calls the reason (`GatedRepo`), or nothing. status: of HTTP.
    """

    def __init__(self, status: int, code: str) -> None:
        super().__init__(f"{status} {code}")
        self.status = status
        self.code = code


class Span(NamedTuple):
    """Some bytes of a stored file, the bytes of the whole, and the address they came from in the end."""

    data: bytes
    total_bytes: int
    url: str


def check_online() -> None:
    """Refuse the network where the environment forbids it.

    Raises: InputError naming the variable.
    """
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        if os.environ.get(name, "").upper() in TRUE:
            raise InputError(
                f"--online: {name}={printable(os.environ[name])} forbids the network",
                f"unset {name}, or leave out --online to read the local hub cache",
            )


def endpoint() -> str:
    """The hub's address: $HF_ENDPOINT, or the public one.

    Raises: InputError when it is not an address of the web.
    """
    given = (os.environ.get("HF_ENDPOINT") or HUB).rstrip("/")
    if _origin(given) is None or any(sign in given for sign in "?#@ "):
        raise InputError(f"HF_ENDPOINT: found {quoted(given)}, allowed an address of the web", f"HF_ENDPOINT={HUB}")
    return given


def token() -> str | None:
    """The user's token, as the hub client finds it in the environment and its own cache.

    Raises: MissingError without the hub client; InputError when it fails to renew a token.
    """
    try:
        from huggingface_hub import constants, get_token
    except ImportError:
        raise MissingError(
            "--online: the hub client huggingface_hub is not installed", "pip install 'kvplan[hub]'"
        ) from None
    try:
        return None if constants.HF_HUB_DISABLE_IMPLICIT_TOKEN else get_token()
    except Exception as error:  # noqa: BLE001  # the exchange or the renewal of a token, which only the client knows
        raise InputError(
            f"the hub client has no token to give: {type(error).__name__}: {printable(str(error))}",
            "`hf auth login`, or set HF_TOKEN",
        ) from None


class Hub:
    """One hub, asked for one model: everything it answers is held to one deadline."""

    def __init__(self, address: str, secret: str | None) -> None:
        utils: Any = import_module("huggingface_hub.utils")  # the one place that all its releases have it in

        self.address = address
        self.secret = secret
        self.ends = monotonic() + SECONDS_IN_ALL
        self.session: Any = utils.get_session()

    def whole(self, url: str, most: int, elsewhere: bool = True) -> bytes:
        """The whole body at `url`, of at most `most` bytes.

        elsewhere: whether another host may hold it, as is usual for stored files.

        Raises: RefusedError, InputError.
        """
        return self._within(lambda: self._get(url, {}, most, elsewhere, None).data)

    def span(self, url: str, first: int, last: int) -> Span:
        """The bytes `first` to `last` of a stored file.

        Raises: RefusedError; InputError when the answer is anything but those bytes.
        """
        return self._get(url, {"Range": f"bytes={first}-{last}"}, last - first + 1, True, (first, last))

    def each(self, work: Callable[[str], None], items: list[str]) -> None:
        """Do `work` for every item, some at a time; the first failure ends it, and so does the deadline.

        The threads are daemons: one that hangs in a name look-up or a dripping header is left behind.
        """
        waiting: SimpleQueue[str] = SimpleQueue()
        for item in items:
            waiting.put(item)
        errors: list[BaseException] = []

        def worker() -> None:
            while not errors:
                try:
                    work(waiting.get_nowait())
                except Empty:
                    return
                except BaseException as error:  # noqa: BLE001  # raised again in the thread that asked
                    errors.append(error)

        threads = [Thread(target=worker, daemon=True) for _ in range(min(THREADS, len(items)))]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive() and not errors and monotonic() < self.ends:
                thread.join(min(0.1, max(0.0, self.ends - monotonic())))
        if errors:
            raise errors[0]
        if any(thread.is_alive() for thread in threads):
            raise self._too_slow()

    def _within(self, work: Callable[[], bytes]) -> bytes:
        found: list[bytes] = []
        self.each(lambda _: found.append(work()), [""])
        return found[0]

    def _get(self, url: str, headers: dict[str, str], most: int, elsewhere: bool, span: tuple[int, int] | None) -> Span:
        for _ in range(MOST_REDIRECTS + 1):
            sent = {"Accept-Encoding": "identity", "User-Agent": "kvplan", **headers}
            if self.secret and _origin(url) == _origin(self.address):
                sent["Authorization"] = f"Bearer {self.secret}"
            status, found, body = self._answer(url, sent, most)
            if status in {301, 302, 303, 307, 308}:
                url = self._redirected(url, found.get("location", ""), elsewhere)
                continue
            if status == 429:
                raise self._limited(found.get("retry-after", ""))
            if status >= 500:
                raise InputError(f"{self._host(url)} answered {status}", "try again later")
            if status != (206 if span else 200):
                if status < 400:
                    raise self._wrong(url, f"answered {status}" + (" where a range was asked for" if span else ""))
                raise RefusedError(status, found.get("x-error-code", ""))
            return Span(body, self._total(url, found, body, span) if span else len(body), url)
        raise self._wrong(url, f"redirected more than {MOST_REDIRECTS} times")

    def _answer(self, url: str, sent: dict[str, str], most: int) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body; the body only where the answer is one, and one more try where none came."""
        for left in reversed(range(TRIES)):
            try:
                with _opened(self.session, url, sent) as (status, found, chunks):
                    body = self._body(url, chunks, most) if status in {200, 206} else b""
                if status < 500 or not left:
                    return status, found, body
            except (InputError, MemoryError):
                raise
            except Exception as error:  # noqa: BLE001  # of httpx, httpx2 or requests, by the client's version
                if not left or monotonic() > self.ends:
                    raise InputError(
                        f"{self._host(url)} cannot be reached: {type(error).__name__}: {printable(str(error))}",
                        "check the connection, HTTPS_PROXY and HF_ENDPOINT; without --online the local hub cache is read",
                    ) from None
        raise AssertionError

    def _body(self, url: str, chunks: Iterator[bytes], most: int) -> bytes:
        body = bytearray()
        for chunk in chunks:
            body += chunk
            if len(body) > most:
                raise self._wrong(url, f"sent more than {most:,} bytes")
            if monotonic() > self.ends:
                raise self._too_slow()
        return bytes(body)

    def _total(self, url: str, found: dict[str, str], body: bytes, span: tuple[int, int]) -> int:
        match = _RANGE.fullmatch(found.get("content-range", ""))
        if match is None or (int(match[1]), int(match[2])) != span or int(match[3]) <= span[1]:
            raise self._wrong(
                url,
                f"sent {quoted(found.get('content-range', ''))} where bytes {span[0]:,} to {span[1]:,} were asked for",
            )
        if len(body) != span[1] - span[0] + 1:
            raise self._wrong(url, f"sent {len(body):,} bytes where {span[1] - span[0] + 1:,} were asked for")
        return int(match[3])

    def _redirected(self, url: str, location: str, elsewhere: bool) -> str:
        """Where a redirect leads, if that is a place to go."""
        try:
            there = urljoin(url, location)
            goal, here = _origin(there), _origin(url)
        except ValueError:
            goal = None
        if (
            not location
            or goal is None
            or here is None
            or (here[0] == "https" and goal[0] != "https")
            or (goal != _origin(self.address) and not elsewhere)
        ):
            raise self._wrong(url, f"redirected to {quoted(location)}")
        return there

    def _limited(self, wait: str) -> InputError:
        when = f"in {int(wait):,} seconds" if re.fullmatch(r"\d{1,6}", wait) else "in some minutes"
        login = "" if self.secret else "; logged in (`hf auth login` or HF_TOKEN) the limit is higher"
        return InputError("the hub limits how often it is asked (429)", f"try again {when}{login}")

    def _wrong(self, url: str, what: str) -> InputError:
        return InputError(f"{self._host(url)} {what}", "check HF_ENDPOINT, or download the model and give its folder")

    def _too_slow(self) -> InputError:
        return InputError(
            f"{self._host(self.address)} did not answer within {SECONDS_IN_ALL:g} seconds",
            "try again, or download the model and give its folder",
        )

    def _host(self, url: str) -> str:
        return f"the hub at {printable(urlsplit(url).netloc.rpartition('@')[2])}"


def _origin(url: str) -> tuple[str, str, int] | None:
    """Scheme, host and port of an address of the web; None for any other."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        return None
    return parts.scheme, parts.hostname, port or (443 if parts.scheme == "https" else 80)


@contextmanager
def _opened(session: Any, url: str, headers: dict[str, str]) -> Iterator[tuple[int, dict[str, str], Iterator[bytes]]]:
    """Status, headers and undecoded body of one GET, whichever library the hub client speaks through."""
    if callable(getattr(session, "stream", None)):  # in releases before 1.0 it is a flag
        with session.stream("GET", url, headers=headers, follow_redirects=False, timeout=SECONDS_TO_ANSWER) as response:
            yield response.status_code, _lowered(response.headers), response.iter_raw()
    else:
        with session.get(
            url, headers=headers, allow_redirects=False, timeout=SECONDS_TO_ANSWER, stream=True
        ) as response:
            yield response.status_code, _lowered(response.headers), response.raw.stream(2**16, decode_content=False)


def _lowered(headers: Any) -> dict[str, str]:
    return {str(key).lower(): str(value) for key, value in headers.items()}
