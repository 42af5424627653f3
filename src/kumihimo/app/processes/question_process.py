"""standard input -> questions; their answers -> standard output: a child process of `QuestionRoom`.

Both are streams of pickled values. First comes the IndexAddress, then requests `(number, Request)`, each answered by
`(succeeded, value)` before the next one comes; `(number, None)` cancels the request of this number.
"""

import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from threading import Thread
from typing import Any, BinaryIO, Literal

from kumihimo.app.ask.query import Query
from kumihimo.app.facade import Kumihimo, open_address
from kumihimo.app.opened.open_index import IndexAddress
from kumihimo.core.cancel import CancelToken
from kumihimo.core.errors import KumiError
from kumihimo.text.translation import choose_language

Request = tuple[Literal["answer", "search"], Query, str]  # the language of messages


@dataclass(slots=True)
class _Inbox:
    """The requests of the parent, as a thread reads them."""

    requests: SimpleQueue[tuple[Request, CancelToken]] = field(default_factory=SimpleQueue)
    number: int = 0
    token: CancelToken = field(default_factory=CancelToken)  # of the request with this number

    def read(self, stream: BinaryIO) -> None:
        """Read requests until the parent ends."""
        with suppress(EOFError):
            while True:
                number, request = pickle.load(stream)
                if request:
                    self.number, self.token = number, CancelToken()
                    self.requests.put((request, self.token))
                elif number == self.number:
                    self.token.cancel("the caller has left")

    def read_and_exit(self, stream: BinaryIO) -> None:
        """Read requests, and end this process with its parent."""
        self.read(stream)
        os._exit(0)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal: the parent ends this process
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print does not get between the replies
    try:
        address: IndexAddress = pickle.load(sys.stdin.buffer)
    except EOFError:  # the parent has ended
        return
    inbox = _Inbox()
    Thread(target=inbox.read_and_exit, args=[sys.stdin.buffer], daemon=True).start()
    with open_address(address) as kumi:
        while True:
            request, token = inbox.requests.get()
            replies.write(_answer(kumi, request, token))
            replies.flush()


def _answer(kumi: Kumihimo, request: Request, token: CancelToken) -> bytes:
    """Return the pickled reply: the result, or the error."""
    try:
        kind, query, language = request
        choose_language(language)
        call: Callable[[Query], Any] = kumi.answer if kind == "answer" else kumi.search
        return pickle.dumps((True, call(replace(query, cancel=token))))
    except KumiError as error:
        return pickle.dumps((False, error))
    except Exception as error:  # noqa: BLE001 (the parent raises it)
        detail = f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
        return pickle.dumps((False, RuntimeError(detail)))


if __name__ == "__main__":
    main()
