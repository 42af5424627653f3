"""recorded commands -> which replies are used, stale or missing; written replies -> the files of the recorded model.

    python -m docs.recorded                       count, and write the missing requests to build/recorded/missing.jsonl
    python -m docs.recorded --add replies.jsonl   check replies, lines of {"key": ..., "reply": ...}, and keep good ones
    python -m docs.recorded --model gpt-5-mini    ask a model of yours for what is missing
    python -m docs.recorded --prune               delete the replies that nothing asks for any more
    python -m docs.recorded --page                write examples-recorded/answers.md again

Each stage needs the replies of the one before: extraction, descriptions, reports by level, questions. One run collects
what is missing at this stage; run it again when the replies are in. The exit status is 1 while something is missing.
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from docs.recorded_page import PAGE, write_page
from docs.recorded_run import REPLIES, Asked, Run, run_commands, write_jsonl

from kumihimo.app.facade import Kumihimo
from kumihimo.core.errors import ItemFailed
from kumihimo.llm.budget import Account, Budget
from kumihimo.llm.cached_llm import connect_model
from kumihimo.llm.concurrency import map_concurrent
from kumihimo.llm.recorded import Recording, read_recordings

MISSING = Path(__file__).parents[1] / "build" / "recorded" / "missing.jsonl"
_MAX_REFUSED = 20  # replies to name
Recorded = dict[str, dict[str, Recording]]  # step -> key -> recording


def read_replies(folder: Path = REPLIES) -> Recorded:
    """Return the recorded replies of each step."""
    return {path.stem: {row.key: row for row in read_recordings(path)} for path in sorted(folder.glob("*.jsonl"))}


def write_replies(recorded: Recorded, folder: Path = REPLIES) -> None:
    """Write the replies of each step, those on one subject together."""
    for step, rows in recorded.items():
        ordered = sorted(rows.values(), key=lambda row: (row.head, row.key))
        path = folder / f"{step}.jsonl"
        if rows:
            write_jsonl(path, [{"key": row.key, "head": row.head, "reply": row.reply} for row in ordered])
        else:
            path.unlink(missing_ok=True)


def count_rows(run: Run, recorded: Recorded) -> list[tuple[str, int, int, int, int]]:
    """Return step, used, stale, unreached and missing, a row each step.

    Unreached: not asked for so far, because replies of earlier stages are missing.
    """
    missing = Counter(each.step for each in run.requests.missing.values())
    rows = []
    for step in dict.fromkeys([*recorded, *missing]):
        keys = recorded.get(step, {}).keys()
        used = len(keys & run.requests.used.keys())
        unused = len(keys) - used
        settled = run.is_settled(step)
        rows.append((step, used, unused * settled, unused * (not settled), missing[step]))
    return rows


def show_counts(run: Run, recorded: Recorded) -> None:
    """Print the counts, what was refused, and how commands failed."""
    rows = count_rows(run, recorded)
    totals = [sum(counts) for counts in zip(*(row[1:] for row in rows), strict=True)]
    print(f"{'':<14}" + "".join(f"{name:>10}" for name in ("used", "stale", "unreached", "missing")))
    for step, *counts in [*rows, ("all", *totals)]:
        print(f"{step:<14}" + "".join(f"{count:>10,}" for count in counts))
    refused = [each for each in run.requests.missing.values() if each.refusal]
    for each in refused[:_MAX_REFUSED]:
        print(f"refused: {each.key} ({each.step}: {each.head[:60]}): {each.refusal}")
    if len(refused) > _MAX_REFUSED:
        print(f"refused: {len(refused) - _MAX_REFUSED} more; missing.jsonl says why")
    waiting = sum(outcome.ran is None for outcome in run.outcomes)
    print(f"{len(run.outcomes)} commands, {waiting} of them wait for replies of an earlier stage")
    for outcome in run.outcomes:
        if outcome.failed and outcome.ran:
            print(f"failed: kumi {' '.join(outcome.words)}\n  {outcome.ran.stderr.strip()}")


def add_replies(written: Mapping[str, str], folder: Path = REPLIES) -> Run:
    """Keep the written replies that are readable; return the run.

    Replies that no command asks for are named on standard error.
    """
    run, recorded = run_commands(replies=folder, added=written), read_replies(folder)
    for key, reply in written.items():
        if asked := run.requests.used.get(key):
            recorded.setdefault(asked.step, {})[key] = Recording(key, asked.head, reply)
        elif key not in run.requests.missing:
            print(f"rejected: {key}: no command asks for it", file=sys.stderr)
    write_replies(recorded, folder)
    return run


def ask_model(name: str, run: Run, folder: Path = REPLIES) -> Run:
    """Ask a model for the missing replies, stage after stage."""
    with Kumihimo.open(settings={"chat": {"model": name}}) as kumi:
        chat = kumi.models.required_chat("answer")

    def request_reply(each: Asked) -> tuple[str, str]:
        send = connect_model(chat, chat.server, Budget(), Account(each.step, chat.fingerprint, chat.prices))
        try:
            return each.key, send(replace(each.request, on_token=None)).raw
        except ItemFailed as failure:
            print(f"no reply: {each.key} ({each.step}): {failure}", file=sys.stderr)
            return each.key, ""

    while missing := list(run.requests.missing.values()):
        replies = dict(map_concurrent(request_reply, missing, chat.workers))
        before = run.requests.missing.keys()
        run = add_replies({key: reply for key, reply in replies.items() if reply}, folder)
        if before <= run.requests.missing.keys():
            break  # no reply could be read
        print(f"{len(replies)} requests, {len(run.requests.missing)} more are missing now")
    return run


def prune(run: Run, folder: Path = REPLIES) -> int:
    """Delete stale replies, and return their number."""
    recorded = read_replies(folder)
    kept = {
        step: {key: row for key, row in rows.items() if key in run.requests.used or not run.is_settled(step)}
        for step, rows in recorded.items()
    }
    write_replies(kept, folder)
    return sum(len(rows) for rows in recorded.values()) - sum(len(rows) for rows in kept.values())


def main(arguments: Sequence[str] | None = None) -> int:
    parser = ArgumentParser(prog="docs.recorded", description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--add", type=Path, action="append", metavar="FILE", help="JSONL of replies; may be repeated")
    parser.add_argument("--model", help="ask this model, with the settings of kumi.toml and the environment")
    parser.add_argument("--prune", action="store_true", help="delete stale replies")
    parser.add_argument("--page", action="store_true", help=f"write {PAGE.name}")
    options = parser.parse_args(arguments)
    written = read_written(options.add or ())
    run = add_replies(written) if written else run_commands()
    if options.model:
        run = ask_model(options.model, run)
    if options.prune:
        print(f"{prune(run)} stale replies deleted")
    recorded = read_replies()
    show_counts(run, recorded)
    write_missing(run)
    print(MISSING)
    if options.page:
        write_page(run)
    return 1 if not run.is_complete or any(outcome.failed for outcome in run.outcomes) else 0


def read_written(paths: Iterable[Path]) -> dict[str, str]:
    """Return written replies by key, without the empty ones."""
    rows = [json.loads(line) for path in paths for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]
    return {row["key"]: row["reply"] for row in rows if row["reply"]}


def write_missing(run: Run, path: Path = MISSING) -> None:
    """Write the requests without a reply, with what was refused."""
    missing = sorted(run.requests.missing.values(), key=lambda each: (each.step, each.head, each.key))
    rows = [
        {"key": each.key, "step": each.step, "head": each.head, "messages": list(each.request.messages)}
        | ({"schema": each.request.schema} if each.request.schema else {})
        | ({"refusal": each.refusal} if each.refusal else {})
        for each in missing
    ]
    write_jsonl(path, rows)


if __name__ == "__main__":
    sys.exit(main())
