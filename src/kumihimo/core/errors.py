"""a failure -> its error class, with a remedy in the message.

KumiError                 any error this package raises on purpose
    SettingsError         an unknown name or value from the user: exit 2
        ConsentRequired   a paid operation without consent
    SourceError           a path or uri is missing or cannot be read: exit 2
        LimitExceeded     a file needs more than a limit allows
        AddressRefused    an address that may not be asked
    IndexUnavailable      the index cannot be used as it is
        IndexBusy         another build is running
        IndexDamaged      a file of the index is damaged
        NewerFormat       a later version of this package made the index
    ModelError            a model server cannot be used as configured: key, address, name
    StepError             a step is not written as the engine needs it: a programming error
    MalformedReply        a reply does not have the requested form
    Cancelled             the caller has left, or the time limit is reached
    IndexChanged          another build has ended in the middle of a question
    ItemFailed            one item failed; the rest continues: exit 1
        UpstreamFailed    an item it depends on failed in this build
        BudgetExceeded    a cap was reached before the request
        WaitsForBatch     a batch has the request, and no reply yet
        RequestRefused    the model server rejects this request: too long, or not allowed
        RequestTimedOut   the model server did not answer in time: a smaller request may succeed
        UnparsableReply   no reply could be parsed, after all attempts
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    from kumihimo.core.records import Record


_INTERNAL_ERRORS = (LookupError, AttributeError, TypeError, NameError, AssertionError)  # tell a user nothing
_DAMAGED = "it is damaged"
MAX_SHOWN = 200  # characters of a value in an error
_MAX_LISTED = 60  # names listed in a message


class KumiError(Exception):
    """Base of all errors this package raises on purpose.

    The message is fit to show to a user.
    """


class SettingsError(KumiError):
    """An unknown name or value from the user."""


class ConsentRequired(SettingsError):
    """A paid operation without consent, for the first time or again."""


class SourceError(KumiError):
    """A missing or unreadable path or uri."""


class LimitExceeded(SourceError):
    """A file that needs more than a limit allows.

    It is not read again until the file or the limit changes.
    """


class AddressRefused(SourceError):
    """An address that its robots.txt or its network forbids."""


class IndexUnavailable(KumiError):
    """An index in an unusable state."""


class IndexBusy(IndexUnavailable):
    """A second build on an index while the first is running."""


class IndexDamaged(IndexUnavailable):
    """A damaged file of an index; the message names it."""


class NewerFormat(IndexUnavailable):
    """An index made by a later version of this package."""


class ModelError(KumiError):
    """A model server with a wrong key, address or model name."""


class StepError(KumiError):
    """A step not written as the engine needs it."""


class MalformedReply(KumiError):
    """A reply without the requested form.

    The message goes to the model, which is asked again.
    """


class Cancelled(KumiError):
    """A command that its caller has cancelled, or that took too long."""


class IndexChanged(KumiError):
    """An index that another build has changed in the middle of a question.

    The question is asked again; its caller does not see this.
    """


class StorageError(Exception):
    """A failure of a store without a known remedy, such as a full disk."""


class ItemFailed(KumiError):
    """The failure of one item.

    It is listed, the rest continues, and the next build tries it again. `fallback`: records to store until then.
    """

    status: ClassVar[Literal["failed", "invalid"]] = "failed"  # invalid: there is a reply, and it cannot be read

    def __init__(self, message: str, *, fallback: Iterable["Record"] = ()) -> None:
        super().__init__(message)
        self.fallback = tuple(fallback)


class UpstreamFailed(ItemFailed):
    """The failure of an item because its input failed.

    A request now would be paid twice.
    """


class BudgetExceeded(ItemFailed):
    """A request stopped by a cap; the next run continues with it."""


class WaitsForBatch(ItemFailed):
    """A request whose reply a batch has not brought yet."""


class RequestRefused(ItemFailed):
    """A request rejected by the model server, now and later."""


class RequestTimedOut(ItemFailed):
    """A request without an answer in time; a smaller one may succeed."""


class UnparsableReply(ItemFailed):
    """A model's replies without a parsable one, after all attempts.

    Callers that do not need the reply may continue.
    """

    status = "invalid"


def describe_fault(error: BaseException) -> str:
    """Return what a library says of broken data, without its own terms.

    >>> describe_fault(ValueError("not a zip file")), describe_fault(KeyError("rId7"))
    ('not a zip file', 'it is damaged')
    """
    is_internal = not isinstance(error, Exception) or isinstance(error, _INTERNAL_ERRORS)
    return (
        "it is nested too deep"
        if isinstance(error, RecursionError)
        else is_internal * _DAMAGED or str(error) or _DAMAGED
    )


def describe_unknown(kind: str, name: object, choices: Iterable[str]) -> str:
    """Return a message for an unknown name, with the closest known one.

    >>> describe_unknown("method", "bm52", ["bm25", "naive"])
    "no method 'bm52'; did you mean 'bm25'? Known: bm25, naive"
    """
    from difflib import get_close_matches  # imported here, since few commands need it

    name, names = str(name)[:MAX_SHOWN], sorted(choices)
    same = [each for each in names if each.casefold() == name.casefold()]
    closest = same or get_close_matches(name, names, n=1, cutoff=0.65)
    hint = f"; did you mean {closest[0]!r}?" if closest else "."
    if len(names) > _MAX_LISTED:
        similar = sorted(get_close_matches(name, names, n=8, cutoff=0.3))
        return f"no {kind} {name!r}{hint} There are {len(names)}" + (
            f", such as {', '.join(similar)}" if similar else ""
        )
    return f"no {kind} {name!r}{hint} Known: {', '.join(names) or 'none'}"
