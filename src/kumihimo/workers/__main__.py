"""standard input -> requests to one handler; its replies -> standard output: the child process of a `Worker`.

It ends when its standard input does, also in the middle of a request: then its parent has ended, by whatever signal.
"""

import json
import os
import signal
import sys
from contextlib import suppress
from importlib import import_module
from queue import SimpleQueue
from threading import Thread
from typing import Any, BinaryIO

try:
    import resource
except ImportError:  # not on this system
    resource = None  # type: ignore[assignment]


def main() -> None:
    handler_name, file_bytes = sys.argv[1], int(sys.argv[2])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal: the parent ends this process
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print does not get between the replies
    if resource and file_bytes:
        _set_limit(resource.RLIMIT_FSIZE, file_bytes)  # such as warnings without end
        sys.dont_write_bytecode = True  # Python would keep a file that was cut off
    module, _, name = handler_name.partition(":")
    handler = getattr(import_module(module), name)
    messages = SimpleQueue[Any]()
    Thread(target=_read_messages, args=[messages], name="kumihimo-requests", daemon=True).start()
    for message in iter(messages.get, None):
        _limit_request(message["cpu_seconds"], message["memory"])
        try:
            for reply in handler(message["request"]):
                _write_line(replies, "reply", reply)
            _write_line(replies, "end", None)
        except MemoryError:
            _write_line(replies, "memory", None)
        except BaseException as error:  # noqa: BLE001 (the parent reports it; of Rust, no Exception)
            from kumihimo.core.redaction import redact  # imported here: slow

            _write_line(replies, "error", redact(f"{type(error).__name__}: {error}")[:1000])


def _read_messages(messages: SimpleQueue[Any]) -> None:
    """Queue the requests; end the process when nobody can send another one."""
    try:
        for line in sys.stdin.buffer:
            messages.put(json.loads(line))
        messages.put(None)
    finally:  # a parent may end in the middle of a line
        os._exit(0)  # also in the middle of a request


def _write_line(replies: BinaryIO, kind: str, value: Any) -> None:
    """Write and flush a line, so that it survives a kill."""
    replies.write(json.dumps([kind, value], ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n")
    replies.flush()


def _limit_request(seconds: int, memory: int) -> None:
    """Limit processor time and memory of a request; 0: no limit."""
    if resource and memory:
        _set_limit(resource.RLIMIT_DATA, memory)
    if resource:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        used = int(usage.ru_utime + usage.ru_stime) + 1
        _set_limit(resource.RLIMIT_CPU, used + seconds if seconds else resource.RLIM_INFINITY)


def _set_limit(kind: int, value: int) -> None:
    """Set a limit of this process, as far as the system allows."""
    hard_limit = resource.getrlimit(kind)[1]
    allowed = value if hard_limit == resource.RLIM_INFINITY else min(value, hard_limit)
    limit = hard_limit if value == resource.RLIM_INFINITY else allowed
    with suppress(OSError, ValueError):  # macOS refuses some
        resource.setrlimit(kind, (limit, hard_limit))


if __name__ == "__main__":
    main()
