"""columns of numbers as people write them in many countries -> values, or the reason why there are none."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from kumihimo.text.numbers import NUMBER_PROBLEMS, number_unit, read_column

# Cells, divided by |; the values they have; their unit.
DECIDED = [
    ("1.250,50 €|980,00 €|12,30 €", "1250.50 980.00 12.30", "€"),  # German
    ("1.250 €|980,50 €|2.500 €", "1250 980.50 2500", "€"),
    ("1.250.000|980.000|2.500", "1250000 980000 2500", ""),
    ("€ 1.250,-|€ 980,-|€ 2.500,-", "1250 980 2500", "€"),  # Dutch
    ("1 250,50 €|980,00 €", "1250.50 980.00", "€"),  # French, narrow and other spaces
    ("1\u202f250\u00a0€|12\u202f980\u00a0€", "1250 12980", "€"),
    ("1'250.50|12'980.00|3.50", "1250.50 12980.00 3.50", ""),  # Swiss
    ("CHF 1’250.–|CHF 80.–|CHF 12’000.–", "1250 80 12000", "CHF"),
    ("1'250|12'980|450", "1250 12980 450", ""),
    ("₹1,23,456|₹12,34,567.50|₹999", "123456 1234567.50 999", "₹"),  # Indian
    ("1,23,456|98,765|1,250", "123456 98765 1250", ""),
    ("Rs. 1,50,000|Rs. 75,000|Rs. 2,00,000", "150000 75000 200000", "Rs."),
    ("12 万円|9,500円|1億2,345万円", "120000 9500 123450000", "円"),  # Japanese
    ("１，２５０円|９８０円|２，５００円", "1250 980 2500", "円"),
    ("1.5億円|3千万円|800万円", "150000000 30000000 8000000", "円"),
    ("12万5,000円|3万円|900円", "125000 30000 900", "円"),
    ("△1,250円|▲300円|45円", "-1250 -300 45", "円"),
    ("1,250人|2,310人|980人", "1250 2310 980", "人"),
    ("3.5万元|12万元|9,800元", "35000 120000 9800", "元"),  # Chinese
    ("1.2亿|3,400万|900万", "120000000 34000000 9000000", ""),
    ("3만 5천 원|12만 원|9,500 원", "35000 120000 9500", "원"),  # Korean
    ("1억 2천만원|3,000만원|500만원", "120000000 30000000 5000000", "원"),
    ("$1,250.50|$980.00|$12.30", "1250.50 980.00 12.30", "$"),  # English
    ("£1,250|£980|£31,000", "1250 980 31000", "£"),
    ("1,250.00|(300.00)|45.50", "1250.00 -300.00 45.50", ""),
    ("$(1,250)|$300|$45", "-1250 300 45", "$"),
    ("($1,250.50)|$300.00|-$45.00", "-1250.50 300.00 -45.00", "$"),
    ("(1.250,50)|300,00|45,00", "-1250.50 300.00 45.00", ""),
    ("1,250 USD|30 USD|45 USD", "1250 30 45", "USD"),
    ("1,250,000|2,500,000|30", "1250000 2500000 30", ""),
    ("0.125|0.250|1.500", "0.125 0.250 1.500", ""),
    ("0,125|1,250|2,500", "0.125 1.250 2.500", ""),
    ("3.5 %|12.25 %|7 %", "3.5 12.25 7", "%"),
    ("7,5 %|12,25 %|3 %", "7.5 12.25 3", "%"),
    ("%7,5|%12,0|%3,1", "7.5 12.0 3.1", "%"),  # Turkish
    ("R$ 1.250,50|R$ 980,00|R$ 3,20", "1250.50 980.00 3.20", "R$"),  # Portuguese
    ("1 250,00 zł|980,50 zł|12,00 zł", "1250.00 980.50 12.00", "zł"),  # Polish
    ("1 250,00 ₽|−980,50 ₽|12,00 ₽", "1250.00 -980.50 12.00", "₽"),  # Russian
    ("1 250 kr|980 kr|12 500 kr", "1250 980 12500", "kr"),  # Swedish
    ("1.250,50 kr.|980,00 kr.|3,25 kr.", "1250.50 980.00 3.25", "kr."),  # Danish
    ("12 500 Kč|980 Kč|1 250 000 Kč", "12500 980 1250000", "Kč"),  # Czech
    ("1.250.000 ₫|980.000 ₫|50.000 ₫", "1250000 980000 50000", "₫"),  # Vietnamese
    ("Rp 1.250.000|Rp 980.000|Rp 50.000", "1250000 980000 50000", "Rp"),  # Indonesian
    ("١٬٢٥٠٫٥٠|٩٨٠٫٠٠|٣٫٢٠", "1250.50 980.00 3.20", ""),  # Arabic
    ("۱٬۲۵۰|۹۸۰|۲٬۵۰۰", "1250 980 2500", ""),  # Persian
    ("१,२३,४५६|९८,७६५|१,२५०", "123456 98765 1250", ""),  # Hindi
    ("฿1,250.00|฿980.50|฿30.00", "1250.00 980.50 30.00", "฿"),  # Thai
    ("1,250.00-|300.00|45.50−", "-1250.00 300.00 -45.50", ""),  # of accounting programs
    ("1.5E+06|2.0E+05|300", "1500000 200000 300", ""),
    ("-3.5 cm|2 cm|0.75 cm", "-3.5 2 0.75", "cm"),
    ("12 m²|8.5 m²|120 m²", "12 8.5 120", "m²"),
    ("1 day|2 days|12 days", "1 2 12", "days"),
    ("12|9|30", "12 9 30", ""),
    ("+12|-9|0", "12 -9 0", ""),
    ("1.2 million|3.4 million|0.5 million", "1.2 3.4 0.5", "million"),
    ("12|n/a|–|30|9", "12 - - 30 9", ""),  # a cell without digits has no value
    (".5|.25|1.75", "0.5 0.25 1.75", ""),
]
UNDECIDED = [
    ("1.250|2.500|3.750", "separators"),
    ("1,250|2,500|3,750", "separators"),
    ("1.250 €|2.500 €|3.000 €", "separators"),
    ("1,250 kg|2,500 kg|12,000 kg", "separators"),
    ("1.250|980|2.100", "separators"),
    ("1.250,50|1,250.50|30", "mixed"),
    ("1.250,50|3.5|30", "mixed"),
    ("12,5|12.5|30", "mixed"),
    ("1.250 円|2.500 円|30 円", "separators"),
    ("$1.250|$2.500|$30", "separators"),
    ("9999999999999999999999999999|1|2", "unclear"),
    ("12 kg|500 g|3 kg", "units"),
    ("$12|€9|$30", "units"),
    ("1.2 million|800 thousand|3 million", "units"),
    ("12 €|9|30 €", "units"),
    ("12|10–20|30", "unclear"),
    ("12|about 15|30", "unclear"),
    ("1,250¹|980|30", "unclear"),
    ("2½|3|4", "unclear"),
    ("007|012|115", "unclear"),
    ("(1)|(2)|(3)", "unclear"),
    ("▲3.2|▼1.5|▲0.4", "unclear"),
    ("▲3.2|1.5|▲0.4", "unclear"),
    ("5'10|6'2|5'11", "unclear"),
    ("12兆|500兆|3兆", "unclear"),
    ("2千5百万円|3円|4円", "unclear"),
    ("1億2億円|3円|4円", "unclear"),
]


def read(cells: str, *others: str, english: bool = False) -> tuple[list[Decimal | None], str]:
    """Return the values of a column, and its unit or its problem."""
    column = read_column(cells.split("|"), others, english=english)
    return list(column.values), column.problem or column.unit


def numbers(text: str) -> list[Decimal | None]:
    return [None if word == "-" else Decimal(word) for word in text.split()]


@pytest.mark.parametrize(("cells", "values", "unit"), DECIDED)
def test_a_column_is_read_as_its_country_writes_it(cells: str, values: str, unit: str) -> None:
    assert read(cells) == (numbers(values), unit)


@pytest.mark.parametrize(("cells", "problem"), UNDECIDED)
def test_a_column_that_cannot_be_decided_has_no_values(cells: str, problem: str) -> None:
    assert read(cells) == ([None] * (cells.count("|") + 1), problem)


def test_other_cells_of_the_table_decide_a_column() -> None:
    assert read("1.250|2.500", "3,50 €", "Ort") == (numbers("1250 2500"), "")
    assert read("1,250|2,500", "$3.50") == (numbers("1250 2500"), "")
    assert read("1.250|2.500", "28.09", "8.30", "2.3") == (numbers("- -"), "separators")  # days, hours and sections
    assert read("1,250|2,500", "来館者") == (numbers("1250 2500"), "")
    assert read("1.250|2.500", "来館者") == (numbers("- -"), "separators")
    assert read("1,250|2,500", english=True) == (numbers("1250 2500"), "")
    assert read("1.250|2.500", english=True) == (numbers("- -"), "separators")
    assert read("1,25|2,50", english=True) == (numbers("1.25 2.50"), "")


def test_a_text_is_a_number_or_not() -> None:
    texts = [
        "１，２５０円",
        "$3.50",
        "-3.5 cm",
        "2024-02-18",
        "1 of 3",
        "11:30",
        "n/a",
        "",
        "v2",
        "1.2.3",
        "28.09.2023",
    ]
    assert [number_unit(text) for text in texts] == ["円", "$", "cm", *[None] * 8]


@given(st.lists(st.text(alphabet="0123456789.,' ()-+%€$円万億千kg٬٫△", max_size=12), max_size=4))
def test_any_column_has_values_or_a_problem(cells: list[str]) -> None:
    column = read_column(cells)
    assert len(column.values) == len(cells)
    assert column.problem in ("", *NUMBER_PROBLEMS)
    assert not column.problem or set(column.values) <= {None}
    assert all(value is None or isinstance(value, Decimal) for value in column.values)
