"""a question about one index -> its answer or its error, both pickled: the handler of a child process."""

import pickle
import traceback
from base64 import b64decode, b64encode
from collections.abc import Iterator
from functools import cache
from typing import Any, Literal

from kumihimo.app.ask.query import Query
from kumihimo.app.facade import Kumihimo
from kumihimo.core.errors import KumiError
from kumihimo.text.translation import choose_language

HANDLER = f"{__name__}:answer_question"
Request = tuple[Literal["answer", "search"], Query, str]  # the language of messages


def pack(value: object) -> str:
    """Return a value as text."""
    return b64encode(pickle.dumps(value)).decode()


def unpack(text: str) -> Any:
    """Return the value that `pack` has written."""
    return pickle.loads(b64decode(text))


def answer_question(request: tuple[str, str]) -> Iterator[str]:
    """Yield whether a question succeeded, and its result or its error.

    request: the packed IndexAddress, and the packed Request.
    """
    address, question = request
    try:
        yield pack((True, _answer(_open(address), unpack(question))))
    except KumiError as error:
        yield pack((False, error))
    except Exception as error:  # noqa: BLE001 (the parent raises it)
        detail = f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
        yield pack((False, RuntimeError(detail)))


def _answer(kumi: Kumihimo, request: Request) -> Any:
    kind, query, language = request
    choose_language(language)
    return kumi.answer(query) if kind == "answer" else kumi.search(query)


@cache
def _open(address: str) -> Kumihimo:
    """Return the index, which stays open as long as the process."""
    return Kumihimo(unpack(address).open())
