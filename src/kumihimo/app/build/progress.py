"""a build's steps -> events with the share of the whole that is done, and the step in plain words."""

from collections.abc import Collection, Iterable

from kumihimo.core.cancel import CancelToken
from kumihimo.core.task import Progress, ProgressEvent
from kumihimo.core.wiring import ROOT
from kumihimo.readers.remote.mirror import FETCHING
from kumihimo.text.translation import translate

# Each step in words, and its share of the CPU time of a first build of the examples and of a thousand interviews.
_STEPS = {
    FETCHING: ("fetching files", 0),
    ROOT: ("reading files", 5),
    "chunks": ("splitting texts into chunks", 18),
    "descriptions": ("describing documents", 1),
    "metadata": ("reading metadata", 1),
    "questions": ("finding questions that texts answer", 1),
    "tags": ("grouping documents", 1),
    "summaries": ("writing summaries", 1),
    "passages": ("splitting texts into passages", 1),
    "frames": ("finding who did what", 1),
    "links": ("finding how sentences connect", 1),
    "imported_units": ("reading what was imported", 1),
    "imported_descriptions": ("reading what was imported", 1),
    "imported_communities": ("reading what was imported", 1),
    "names": ("finding names", 18),
    "merges": ("finding names of the same thing", 2),
    "mentions": ("collecting names", 4),
    "ties": ("finding names near each other", 4),
    "entities": ("collecting entities", 9),
    "relations": ("connecting entities", 7),
    "assertions": ("finding statements", 1),
    "claims": ("collecting statements", 1),
    "communities": ("grouping entities", 1),
    "members": ("grouping entities", 1),
    "reports": ("writing reports", 12),
    "words of chunks": ("indexing chunks by words", 12),
    "meaning of chunks": ("indexing chunks by meaning", 9),
    "search": ("searching", 1),
}
_MODEL_FACTOR = 20  # a step that asks a chat model takes longer


def describe_event(event: ProgressEvent, language: str = "en") -> str:
    """Return what is being done, in words of a language.

    >>> describe_event(ProgressEvent("names")), describe_event(ProgressEvent("meaning of summaries"))
    ('finding names', 'indexing summaries by meaning')
    >>> describe_event(ProgressEvent("answer", model="gemma")), describe_event(ProgressEvent("measures"))
    ('asking gemma', 'measures')
    """
    if event.model:
        return translate(f"asking {event.model}", language)
    if event.step in _STEPS:
        return translate(_STEPS[event.step][0], language)
    kind, _, table = event.step.partition(" of ")
    if kind == "words":
        return translate(f"indexing {table} by words", language)
    return translate(f"indexing {table} by meaning", language) if kind == "meaning" else event.step


def add_shares(progress: Progress | None, steps: Iterable[str], model_steps: Collection[str]) -> Progress | None:
    """Return a receiver that adds the share of the whole.

    steps: in the order they run; one with nothing to do sends no event. model_steps: steps that ask a chat model.
    """
    if progress is None:
        return None
    weights = {step: _STEPS.get(step, ("", 1))[1] * (_MODEL_FACTOR if step in model_steps else 1) for step in steps}
    total, order, highest = sum(weights.values()), [*weights], 0.0

    def receive(event: ProgressEvent) -> None:
        nonlocal highest
        earlier = sum(weights[step] for step in order[: order.index(event.step)])
        share = (earlier + weights[event.step] * event.done / max(event.total, 1)) / total
        highest = max(highest, share)
        progress(ProgressEvent(event.step, event.done, event.total, highest))

    return receive


def stop_when_cancelled(progress: Progress | None, cancel: CancelToken | None) -> Progress | None:
    """Return a receiver that raises Cancelled as soon as the command is."""
    if cancel is None:
        return progress

    def receive(event: ProgressEvent) -> None:
        cancel.check()
        if progress:
            progress(event)

    return receive
