"""missing requests -> a JSONL work file, and files of prompts for people, each with a form for the replies."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from docs.recorded_run import Asked, write_jsonl

Drafts = Mapping[tuple[str, str], str]  # step and head -> a reply to an earlier form of the prompt
_MIN_SHARED = 400  # characters of a common beginning that is worth printing apart


def write_work_files(
    folder: Path, missing: Sequence[Asked], drafts: Drafts, parts: int, added: Collection[Path] = ()
) -> list[Path]:
    """Write the work file and so many files of prompts; return their paths.

    Raises SystemExit before a form with replies is overwritten, unless they were added.
    """
    added = {path.resolve() for path in added}
    ordered = sorted(missing, key=lambda each: (each.step, each.head, each.key))
    work = folder / "missing.jsonl"
    shares = list(_split(ordered, parts))
    for number in range(1, len(shares) + 1):
        form = folder / f"replies-{number:02}.jsonl"
        if form.exists() and form.resolve() not in added and read_written([form]):
            raise SystemExit(f"{form} holds replies: add them with --add, then delete it; or choose another --out")
    write_jsonl(work, [_work_row(each, drafts) for each in ordered])
    written = [work]
    for number, share in enumerate(shares, 1):
        prompts, form = folder / f"prompts-{number:02}.txt", folder / f"replies-{number:02}.jsonl"
        prompts.write_text("".join(_render_prompts(share, drafts, form.name)), encoding="utf-8")
        write_jsonl(form, [{"key": each.key, "reply": ""} for each in share])
        written += [prompts, form]
    return written


def read_written(paths: Iterable[Path]) -> dict[str, str]:
    """Return the replies of filled forms by key, without the empty ones."""
    rows = [json.loads(line) for path in paths for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]
    return {row["key"]: row["reply"] for row in rows if row["reply"]}


def _work_row(each: Asked, drafts: Drafts) -> dict[str, object]:
    row = {"key": each.key, "step": each.step, "head": each.head, "messages": list(each.request.messages)}
    extra = {"schema": each.request.schema, "refusal": each.refusal, "draft": drafts.get((each.step, each.head))}
    return row | {name: value for name, value in extra.items() if value}


def _split(missing: Sequence[Asked], parts: int) -> Iterator[list[Asked]]:
    """Yield consecutive shares of about the same number of characters."""
    total, before = sum(map(_size, missing)), 0
    shares: list[list[Asked]] = [[] for _ in range(parts)]
    for each in missing if parts else ():
        shares[before * parts // total].append(each)
        before += _size(each)
    yield from filter(None, shares)


def _size(each: Asked) -> int:
    return sum(len(message["content"]) for message in each.request.messages)


def _render_prompts(share: Sequence[Asked], drafts: Drafts, form: str) -> Iterator[str]:
    """Yield the prompts with their numbers; what a step's prompts begin with comes once."""
    yield f"{len(share)} prompts. Write each reply into {form}, on the line with its key.\n"
    numbers = {each.key: number for number, each in enumerate(share, 1)}
    for step, group in groupby(share, key=lambda each: each.step):
        texts = {each.key: (each, _conversation(each)) for each in group}
        prefix = os.path.commonprefix([text for _, text in texts.values()])  # noqa: RUF071 - of texts
        prefix = prefix[: prefix.rfind("\n") + 1]
        shared = len(prefix) if len(texts) > 1 and len(prefix) >= _MIN_SHARED else 0
        if shared:
            yield f"\n======== All {len(texts)} prompts of {step} begin with:\n{prefix}"
        for key, (each, text) in texts.items():
            yield f"\n======== {numbers[key]} of {len(share)}, {step}, key {key}\n{text[shared:]}\n"
            if each.refusal:
                yield f"-------- refused: an earlier reply, by its parser: {each.refusal}\n"
            if draft := drafts.get((each.step, each.head)):
                yield f"-------- draft: the reply to an earlier form of this prompt\n{draft}\n"


def _conversation(each: Asked) -> str:
    return "\n\n".join(f"-------- {message['role']}\n{message['content']}" for message in each.request.messages)
