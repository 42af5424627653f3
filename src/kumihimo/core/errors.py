"""nothing -> every error a user may meet. Each message says what to do.

KumiError                 anything this package raises on purpose
    SettingsError         a name or value the user gave is not one we know: exit 2
        ConsentRequired   it would be paid for, and nobody has agreed yet
    SourceError           a path or uri is not there, or cannot be read at all: exit 2
    IndexUnavailable      the index cannot be used as it is
        IndexBusy         another build is running
        NewerFormat       made by a later version of this package
    ModelError            a model's server cannot be used as it is set: key, address, name
    StepError             a step is not written as the engine needs it: a programmer's mistake
    MalformedReply        a reply is not of the form that was asked for
    ItemFailed            one item could not be made; the rest goes on: exit 1
        UpstreamFailed    what it needs has failed in this build
        BudgetExceeded    a cap was reached before it was asked
        RequestRefused    the model's server will not take this one: too long, or not allowed
        UnparsableReply   a model's replies could not be read, however often it was asked
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kumihimo.core.records import Record


_MAX_LISTED = 100  # names that a message may list


class KumiError(Exception):
    """Anything this package raises on purpose; its text is fit to show to a user."""


class SettingsError(KumiError):
    """A name or value the user gave is not one we know."""


class ConsentRequired(SettingsError):
    """It would be paid for, again or for the first time, and nobody has agreed to that."""


class SourceError(KumiError):
    """A path or uri is not there, or cannot be read at all."""


class IndexUnavailable(KumiError):
    """The index cannot be used as it is."""


class IndexBusy(IndexUnavailable):
    """Another build is running on this index."""


class NewerFormat(IndexUnavailable):
    """The index was made by a later version of this package."""


class ModelError(KumiError):
    """A model's server cannot be used as it is set: its key, its address, its name."""


class StepError(KumiError):
    """A step is not written as the engine needs it."""


class MalformedReply(KumiError):
    """A reply is not of the form that was asked for; the text says so to the model, which is asked again."""


class ItemFailed(KumiError):
    """One item could not be made. It is listed, the rest goes on, and the next build tries it again.

    `instead` is stored in its place until then, where something is better than nothing.
    """

    def __init__(self, message: str, *, fallback: Iterable[Record] = ()) -> None:
        super().__init__(message)
        self.fallback = tuple(fallback)


class UpstreamFailed(ItemFailed):
    """What this item needs has failed in this build, so asking for it now would be paid twice."""


class BudgetExceeded(ItemFailed):
    """A cap was reached before this item was asked for: the next run goes on with it."""


class RequestRefused(ItemFailed):
    """The model's server will not take this request, whoever asks it again."""


class UnparsableReply(ItemFailed):
    """A model's replies could not be read, however often it was asked: who can do without them may go on."""


def describe_unknown(kind: str, name: str, choices: Iterable[str]) -> str:
    """Says that `name` is no `kind`, and which was probably meant.

    >>> unknown("method", "bm52", ["bm25", "naive"])
    "no method 'bm52'; did you mean 'bm25'? Known: bm25, naive"
    """
    from difflib import get_close_matches  # here: most commands mistake nothing

    names = sorted(choices)
    near = get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    if len(names) > _MAX_LISTED:
        alike = sorted(get_close_matches(name, names, n=8, cutoff=0.3))
        return f"no {kind} {name!r}{hint} There are {len(names)}" + (f", such as {', '.join(alike)}" if alike else "")
    return f"no {kind} {name!r}{hint} Known: {', '.join(names) or 'none'}"
