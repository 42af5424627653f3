"""studies -> Figure 2 of GraphRAG for them: a row for each data set, a column for each criterion, row beats column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kumihimo.evaluate.bias import Bias
from kumihimo.evaluate.comparison import Compared, Sides, matrix
from kumihimo.evaluate.report.markup import Html, chance, counted, figure, folded, joined, p, share, table, tag
from kumihimo.evaluate.report.summary_data import Criterion, Gathered


def grids(studies: Sequence[Gathered]) -> Iterator[Html]:
    """Of each protocol one, the one that decides first."""
    for protocol in dict.fromkeys(name for held in studies for name in held.protocols):
        yield tag("h3", "Protocol ", protocol)
        yield tag("div", *(_row(held, protocol) for held in studies if held.of(protocol)), class_="figure2")
        yield p(_family(protocol, studies), class_="soft")
        for held in studies:
            if held.of(protocol):
                yield folded(f"All pairs of {held.name} in numbers", *(pairs_table(c) for c in held.of(protocol)))


def _row(held: Gathered, protocol: str) -> Html:
    criteria = held.of(protocol)
    cells = (_matrix(held, criterion) for criterion in criteria)
    name = f"{held.name}: win rates by each criterion"
    return joined(
        [
            tag("h4", held.name, tag("span", f" {counted(len(held.questions), 'question')}", class_="soft")),
            tag("div", *cells, class_="scroll", tabindex="0", role="group", aria_label=name),
        ]
    )


def _family(protocol: str, studies: Sequence[Gathered]) -> str:
    sizes = sorted({pair.family for held in studies for c in held.of(protocol) for pair in c.compared})
    zeros = "left out before ranking, as published" if _published(protocol) else "ranked, then left out (Pratt)"
    of = " or ".join(map(str, sizes)) or "no"
    return (
        f"Protocol {protocol}. Each number: how many points of 100 the row has against the column, a tie 50, the mean "
        f"of the questions. * : p < .05 by Wilcoxon's signed-rank test (questions without a difference {zeros}), "
        f"corrected by Holm among the {of} pairs of one criterion and one data set. Bold: the best row. Hatched: "
        "of a system that does not come out even against another answer of its own (A/A)."
    )


def _published(protocol: str) -> bool:
    from kumihimo.evaluate.comparison import zeros_of

    return zeros_of(protocol) == "wilcox"


def _matrix(held: Gathered, criterion: Criterion) -> Html:
    systems = [s for s in held.systems if any(s in pair for pair in criterion.points)]
    cells = matrix(criterion.compared)
    rung = doubtful(held.bias, criterion)
    means = {one.system: one.mean for one in criterion.ranked}
    first = max(means, key=lambda s: means[s], default="")
    head = tag("tr", tag("td"), *(tag("th", tag("span", s), scope="col") for s in systems))
    rows = [
        tag(
            "tr",
            tag("th", row, scope="row"),
            *(_cell(cells, (row, column), doubted=bool(rung & {row, column})) for column in systems),
            class_="best" if row == first else None,
        )
        for row in systems
    ]
    return tag("table", tag("caption", criterion.name), tag("thead", head), tag("tbody", *rows), class_="matrix")


def _cell(cells: Mapping[Sides, Compared], sides: Sides, *, doubted: bool) -> Html:
    if sides[0] == sides[1]:
        return tag("td", "50", class_="self")
    pair = cells.get(sides)
    if pair is None:
        return tag("td", "–", class_="self", title=f"{sides[0]} and {sides[1]} were not compared")
    strength = min(1.0, abs(pair.mean - 50) / 40)
    kind = "more" if pair.mean > 50 else "less"
    shown = f"{round(pair.mean)}{'*' if pair.sure else ''}"
    told = (
        f"{pair.a} over {pair.b}: {share(pair.mean)}, interval {round(pair.low)}–{round(pair.high)}, "
        f"p {chance(pair.corrected)} after Holm, {counted(pair.n, 'question')}"
    )
    return tag("td", shown, class_=f"{kind} doubted" if doubted else kind, style=f"--by:{strength:.2f}", title=told)


def doubtful(bias: Bias | None, criterion: Criterion) -> set[str]:
    """Systems that do not come out even against themselves."""
    same = bias.same if bias else ()
    names = (criterion.name, *criterion.parts)
    return {one.system for one in same if one.protocol == criterion.protocol and one.criterion in names and one.alarm}


HEAD = ("Pair", "Mean", "95 %", "n", "Not shared", "Z", "p", "p Holm", "m", "Effect r", "p by flips", "Detectable",
        "… by m", "Shapiro–Wilk p")  # fmt: skip


def pairs_table(criterion: Criterion) -> Html:
    return compared_table(f"{criterion.name}, {criterion.protocol}", criterion.compared)


def compared_table(caption: str, compared: Sequence[Compared]) -> Html:
    return table(caption, HEAD, (_numbers(pair) for pair in compared), class_="numbers")


def _numbers(pair: Compared) -> list[str]:
    digits = 1 if pair.kind == "points" else 3
    return [
        f"{pair.a} – {pair.b}",
        f"{pair.mean:.{digits}f}{'*' if pair.sure else ''}",
        f"{pair.low:.{digits}f} to {pair.high:.{digits}f}",
        str(pair.n),
        str(pair.left_out),
        f"{pair.z:.2f}",
        chance(pair.p),
        chance(pair.corrected),
        str(pair.family),
        f"{pair.effect:.2f}",
        chance(pair.flipped),
        figure(pair.detectable, digits),
        figure(pair.corrected_detectable, digits),
        pair.shape.why if pair.shape.p is None else chance(pair.shape.p),
    ]
