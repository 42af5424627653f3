"""pictures of pages whose text is known -> character error rate and time of each OCR engine that is installed.

The pages are made from the texts of examples/ and docs/: ten in Japanese, ten in English. They differ in font, size,
resolution, rotation (up to 2 degrees), blur, noise and JPEG quality; the seed is fixed. One more Japanese page in five
is vertical and counts apart. The rate is the edit distance to the known text, divided by its length. Both texts are
compared after NFKC, and without spaces in Japanese. Engines: the reader of the extra `ocr`, RapidOCR with the models of
its wheels, faster-paddle, and Tesseract with its languages. Fonts: `apt-get install fonts-noto-cjk fonts-ipafont
fonts-dejavu fonts-liberation`. Prints a row for each engine, and one for each page with --pages.
"""

from __future__ import annotations

import io
import random
import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple
from unicodedata import normalize

from PIL import Image, ImageDraw, ImageFilter, ImageFont
from rapidfuzz.distance import Levenshtein

from benchmarks.meter import check_at_most
from benchmarks.options import bench_parser, read_options, run_benchmark
from kumihimo.readers.pdf import read_pdf

HOME = Path(__file__).parents[1]
ENGLISH = ("court-minutes.md", "island-guide.md", "keepers-log.txt", "mason-letter.txt")
JAPANESE = ("examples/field-notes.txt", "README.ja.md", "docs/ja/first-steps.md")
FONTS = {
    "en": (
        "truetype/liberation/LiberationSerif-Regular.ttf",
        "truetype/dejavu/DejaVuSans.ttf",
        "truetype/liberation/LiberationSans-Regular.ttf",
        "truetype/dejavu/DejaVuSerif.ttf",
        "truetype/liberation/LiberationMono-Regular.ttf",
    ),
    "ja": (
        "opentype/noto/NotoSerifCJK-Regular.ttc",
        "opentype/noto/NotoSansCJK-Regular.ttc",
        "opentype/ipafont-mincho/ipam.ttf",
        "opentype/ipafont-gothic/ipag.ttf",
    ),
}
FONT_FOLDER = Path("/usr/share/fonts")
PAGE_CHARS = {"en": 900, "ja": 400}  # as many as fit in the largest letters
INCHES = (6.0, 8.4)  # the page, a little over A5
MARGIN = 0.5
NO_LINE_START = "、。，．」』）】・ーゃゅょっ？！"
LIMITS = {"en": 0.01, "ja": 0.01, "ja vertical": 0.05}  # error rates of the reader

READER = "the reader"
Recognize = Callable[[bytes, str], str]  # a picture, and its language -> its text


class KnownPage(NamedTuple):
    """A picture with the text that it shows."""

    name: str
    language: str
    text: str
    picture: bytes


def known_texts(language: str) -> Iterator[str]:
    """Yield texts of a page each."""
    if language == "en":
        sources = [(HOME / "examples" / name).read_text(encoding="utf-8") for name in ENGLISH]
    else:
        data = (HOME / "examples" / "koho-shioyori.pdf").read_bytes()
        sources = [page.text for page in read_pdf(data, "koho-shioyori.pdf")]
        sources += [(HOME / name).read_text(encoding="utf-8") for name in JAPANESE]
    for source in sources:
        page: list[str] = []
        for line in re.sub(r"```.*?```", "", source, flags=re.S).splitlines():
            bare = re.sub(r"[#*`|>]+|\[(.*?)\]\(.*?\)", r"\1", line).strip("-• ")
            if not bare.strip() or (language == "ja" and len(re.findall("[ぁ-龥]", bare)) < len(bare) / 2):
                continue
            page.append(" ".join(bare.split()))
            if sum(map(len, page)) >= PAGE_CHARS[language] * 2 // 3:
                yield "\n".join(page)[: PAGE_CHARS[language]]
                page = []


def wrap(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Break a text into lines; at spaces, or between ideographs."""
    lines: list[str] = []
    for paragraph in text.split("\n"):
        line = ""
        for piece in re.findall(r"[\x21-\x7e\u2010-\u2026]+ ?|.", paragraph):
            if line and not fits((line + piece).rstrip()) and piece not in NO_LINE_START:
                lines.append(line.rstrip())
                line = ""
            line += piece
        lines.append(line.rstrip())
    return lines


def draw_page(text: str, font_path: Path, rng: random.Random, *, vertical: bool) -> bytes:
    """Return a picture of the text, as a scanner or camera makes it."""
    dpi, points = rng.choice((150, 200, 300)), rng.choice((9, 10.5, 12, 14))
    width, height = (int(inches * dpi) for inches in INCHES)
    size, margin = int(points * dpi / 72), int(MARGIN * dpi)
    font, pitch = ImageFont.truetype(str(font_path), size), int(size * 1.6)
    picture = Image.new("L", (width, height), rng.randrange(225, 256))
    pen, ink = ImageDraw.Draw(picture), rng.randrange(0, 70)
    if vertical:
        for column, line in enumerate(wrap(text, lambda part: len(part) * size * 1.05 < height - 2 * margin)):
            for row, letter in enumerate(line):
                place = (width - margin - size - column * pitch, margin + int(row * size * 1.05))
                pen.text(place, letter, ink, font)
    else:
        for row, line in enumerate(wrap(text, lambda part: font.getlength(part) <= width - 2 * margin)):
            pen.text((margin, margin + row * pitch), line, ink, font)
    picture = picture.rotate(rng.uniform(-2, 2), Image.Resampling.BICUBIC, fillcolor=240)
    picture = picture.filter(ImageFilter.GaussianBlur(rng.uniform(0, 0.004) * dpi))
    noise = Image.effect_noise(picture.size, rng.uniform(10, 60))
    picture = Image.blend(picture, noise, rng.uniform(0, 0.3))
    stored = io.BytesIO()
    picture.save(stored, "JPEG", quality=rng.randrange(20, 80))
    return stored.getvalue()


def make_pages(count: int) -> list[KnownPage]:
    """Return the test pages, the same ones each time."""
    pages = list[KnownPage]()
    for language in ("ja", "en"):
        fonts = [path for name in FONTS[language] if (path := FONT_FOLDER / name).is_file()]
        if not fonts:
            print(f"  no fonts for {language}: see the first lines of benchmarks/ocr_pages.py")
            continue
        for number, text in enumerate(list(known_texts(language))[:count]):
            rng = random.Random(f"{language} {number}")
            name, font = f"{language} {number + 1}", fonts[number % len(fonts)]
            pages.append(KnownPage(name, language, text, draw_page(text, font, rng, vertical=False)))
            if language == "ja" and number % 5 == 1:
                short = re.sub(r"[!-~]", "", text)[:250]
                pages.append(
                    KnownPage(f"{name} vertical", "ja vertical", short, draw_page(short, font, rng, vertical=True))
                )
    return pages


def error_rate(read: str, known: str, language: str) -> float:
    """Return the edit distance of two texts for each character."""
    gap = " " if language == "en" else ""
    first, second = (gap.join(normalize("NFKC", text).split()) for text in (read, known))
    return Levenshtein.distance(first, second) / max(len(second), 1)


def _rapidocr() -> Recognize:
    from rapidocr import RapidOCR

    engine: Any = RapidOCR()
    return lambda picture, _: "\n".join(engine(picture).txts or ())


def _rapidocr_onnxruntime() -> Recognize:
    from rapidocr_onnxruntime import RapidOCR

    engine: Any = RapidOCR()
    return lambda picture, _: "\n".join(line[1] for line in engine(picture)[0] or ())


def _faster_paddle(size: str) -> Recognize:
    from faster_paddle import OcrEngine

    engine: Any = OcrEngine(model_size=size)
    return lambda picture, _: engine.ocr(picture)["text"]


def _tesseract(picture: bytes, language: str) -> str:
    languages = {"en": "eng", "ja": "jpn", "ja vertical": "jpn_vert"}[language]
    command = ["tesseract", "-", "-", "-l", languages, *(["--psm", "5"] if "vert" in languages else [])]
    return subprocess.run(command, input=picture, capture_output=True, check=False).stdout.decode()


def _tesseract_both(picture: bytes, _: str) -> str:
    command = ["tesseract", "-", "-", "-l", "jpn+eng"]
    return subprocess.run(command, input=picture, capture_output=True, check=False).stdout.decode()


def _reader() -> Recognize:
    from kumihimo.readers.ocr import read_picture

    return lambda picture, _: "\n".join(page.text for page in read_picture(picture, "page.jpg"))


def find_engines() -> dict[str, Callable[[], Recognize]]:
    """Return the makers of the installed engines."""
    engines: dict[str, Callable[[], Recognize]] = {}
    if find_spec("rapidocr"):
        engines[READER] = _reader
        engines["rapidocr (PP-OCRv6 small)"] = _rapidocr
    if find_spec("rapidocr_onnxruntime"):
        engines["rapidocr-onnxruntime (PP-OCRv4)"] = _rapidocr_onnxruntime
    if find_spec("faster_paddle"):
        engines["faster-paddle (PP-OCRv6 tiny)"] = lambda: _faster_paddle("tiny")
        engines["faster-paddle (PP-OCRv6 small)"] = lambda: _faster_paddle("small")
    if shutil.which("tesseract"):
        engines["tesseract, the language named"] = lambda: _tesseract
        engines["tesseract, jpn+eng"] = lambda: _tesseract_both
    return engines


def measure(engine: str, recognize: Recognize, pages: Sequence[KnownPage], *, each: bool) -> dict[str, float]:
    """Print the error rates of an engine; return them by language."""
    rates, began = defaultdict[str, list[float]](list), perf_counter()
    for page in pages:
        rates[page.language].append(error_rate(recognize(page.picture, page.language), page.text, page.language))
        if each:
            print(f"    {page.name:15} {rates[page.language][-1]:.4f}", flush=True)
    means = {language: sum(values) / len(values) for language, values in rates.items()}
    shown = ", ".join(f"{language} {mean:.2%}" for language, mean in means.items())
    print(f"  {engine:34} {shown}; {(perf_counter() - began) / len(pages):.1f} s a page", flush=True)
    return means


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--count", type=int, default=10, help="pages of each language")
    parser.add_argument("--pages", action="store_true", help="print each page")
    parser.add_argument("--engine", default="", help="only engines whose name contains this")
    parser.add_argument("--save", type=Path, help="a folder for the pictures")
    options = read_options(parser, argv, count=1)
    pages = make_pages(options.count)
    print(f"  {len(pages)} pages, {sum(len(page.text) for page in pages):,} characters")
    if options.save:
        options.save.mkdir(parents=True, exist_ok=True)
        for page in pages:
            (options.save / f"{page.name}.jpg").write_bytes(page.picture)
            (options.save / f"{page.name}.txt").write_text(page.text, encoding="utf-8")
    for name, make in find_engines().items():
        if options.engine in name and pages:
            rates = measure(name, make(), pages, each=options.pages)
            for language, rate in rates.items() if name == READER else ():
                check_at_most(f"errors of the reader, {language}", rate, LIMITS[language])


if __name__ == "__main__":
    run_benchmark(main)
