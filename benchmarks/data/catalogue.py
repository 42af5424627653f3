"""`sets.toml` -> the data sets: where each is published, its licence, checksums, converter and samples."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.data.sources import Sample, Source, SourceError, Tables

Converter = Callable[[Sequence[Path], Sample], Tables]


@dataclass(frozen=True, slots=True)
class DataSet:
    """A public data set; form: what its files hold, one after the other; samples: by name, `all` is the whole."""

    name: str
    title: str
    licence: str
    form: str
    converter: str
    samples: Mapping[str, Sample]

    def sample(self, name: str) -> Sample:
        """Return the sample with this name, or if it is empty the whole set.

        Raises SourceError with the names.
        """
        names = ", ".join(self.samples)
        if not name and "all" not in self.samples:
            raise SourceError(f"{self.name} is published in parts: add --sample with one of {names}")
        if (sample := self.samples.get(name or "all")) is None:
            raise SourceError(f"{self.name} has no sample {name!r}: it has {names}")
        return sample

    def convert(self, sample: Sample, paths: Sequence[Path], *, verify: bool = True) -> Tables:
        """Convert the files of a sample that stand among these paths.

        verify: whether their checksums must agree. Raises SourceError if a file is missing, broken or another one.
        """
        files = self._find_files(sample, paths)
        if verify:
            for source, path in zip(sample.sources, files, strict=True):
                source.check(path)
        module, _, function = self.converter.partition(".")
        convert: Converter = getattr(import_module(f"benchmarks.data.{module}"), function)
        try:
            tables = convert(files, sample)
            _check_rows(tables)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:  # of another form
            names = ", ".join(map(str, files))
            raise SourceError(
                f"{names} cannot be converted to {self.name} ({type(error).__name__}: {error}). Expected: {self.form}."
            ) from error
        return tables

    def _find_files(self, sample: Sample, paths: Sequence[Path]) -> list[Path]:
        """Find each file of a sample; a single file may have any name."""
        if absent := [str(path) for path in paths if not path.exists()]:
            raise SourceError(f"there is no file or folder {', '.join(absent)}")
        if len(sample.sources) == len(paths) == 1 and paths[0].is_file():
            return list(paths)
        found = {source: source.find(paths) for source in sample.sources}
        if missing := [source for source, path in found.items() if path is None]:
            raise SourceError(
                f"{self.title}: {sample.size}\nAdd --from with these files, or with a folder that holds them:\n"
                + "".join(f"  {source.name}  ({source.state()})\n" for source in missing)
                + f"They are at {sample.sources[0].address}\nLicence: {self.licence}\nExpected: {self.form}"
            )
        return [path for path in found.values() if path is not None]


def _check_rows(tables: Tables) -> None:
    """Raise ValueError if a text is none, or if the gold of a question is not in the corpus."""
    rows_by_ending = {ending: rows for ending, rows in tables.items() if not isinstance(rows, bytes)}
    corpus, questions = (rows_by_ending.get(ending, ()) for ending in ("_corpus.jsonl", "_questions.jsonl"))
    for rows, key in ((corpus, "text"), (questions, "question")):
        if bad := next((row for row in rows if not isinstance(row[key], str)), None):
            raise ValueError(f"the {key} of {bad['id']!r} is no text")
    ids = {row["id"] for row in corpus}
    if lost := next((row for row in questions if not ids.issuperset(row.get("gold_passage_ids", ()))), None):
        raise ValueError(f"the corpus lacks the gold of the question {lost['id']!r}")


@cache
def read_catalogue() -> Mapping[str, DataSet]:
    """Read the data sets by name."""
    with Path(__file__).with_name("sets.toml").open("rb") as file:
        return {name: _build_set(name, **values) for name, values in tomllib.load(file).items()}


def _build_set(name: str, *, samples: dict[str, Any], convert: str, address: str, **values: Any) -> DataSet:
    shared = {"address": address, "files": values.pop("files", {})}
    return DataSet(
        name,
        samples={each: _build_sample(**{**shared, **own}) for each, own in samples.items()},
        converter=convert,
        **values,
    )


def _build_sample(*, address: str, files: dict[str, str], **values: Any) -> Sample:
    return Sample(sources=tuple(Source(name, address, digest) for name, digest in files.items()), **values)
