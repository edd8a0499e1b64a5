"""Write the seeds of the fuzzed readers: a small file of every format, each with the same twenty films.

python tests/faults/make_seeds.py
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet

FOLDER = Path(__file__).parent / "seeds"
FILMS = [
    {
        "id": f"id{number:03}",
        "title": ("Heat", "Amélie, la", 'The "Ran"', "Alien\nagain", "乱")[number % 5] + f" {number}",
        "year": str(1970 + number),
        "score": f"{number / 4:.2f}",
    }
    for number in range(20)
]
NESTED = [film | {"cast": [{"name": "Al"}, {"name": "Bo"}], "seen": {"at": None, "in": True}} for film in FILMS]
SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
PLACES = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def main() -> None:
    """Write all seeds."""
    FOLDER.mkdir(exist_ok=True)
    text = write_csv(",")
    lines = "".join(json.dumps(film, ensure_ascii=False) + "\n" for film in FILMS)
    seeds = {
        "comma.csv": text.encode(),
        "quoted.csv": write_csv(",", csv.QUOTE_ALL).replace("\n", "\r\n").encode(),
        "semicolon.csv": ("Films of a decade\n\n" + write_csv(";")).encode(),
        "western.csv": text.replace("乱", "Été").encode("cp1252"),
        "wide.csv": text.encode("utf-16"),
        "tabs.tsv": write_csv("\t").encode(),
        "comma.csv.gz": gzip.compress(text.encode(), mtime=0),
        "comma.csv.zst": compress(text.encode()),
        "lines.jsonl": lines.encode(),
        "lines.json.gz": gzip.compress(lines.encode(), mtime=0),
        "array.json": json.dumps(FILMS).encode(),
        "indented.json": json.dumps(NESTED, indent=1, ensure_ascii=False).encode(),
        "nested.jsonl": "".join(json.dumps(film) + "\n" for film in NESTED).encode(),
        "sheet.xlsx": write_workbook(),
    }
    table = pa.Table.from_pylist([film | {"score": float(film["score"])} for film in NESTED])
    for name, content in seeds.items():
        (FOLDER / name).write_bytes(content)
    pa.parquet.write_table(table, FOLDER / "groups.parquet", row_group_size=5, compression="zstd")
    pa.parquet.write_table(table, FOLDER / "plain.parquet", compression="none", use_dictionary=False)
    pa.feather.write_feather(table, FOLDER / "columns.feather", compression="lz4")
    with pa.OSFile(str(FOLDER / "batches.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, 5)
    with pa.OSFile(str(FOLDER / "stream.arrows"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, 5)


def write_csv(delimiter: str, quoting: int = csv.QUOTE_MINIMAL) -> str:
    """Return the films between delimiters."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(FILMS[0]), delimiter=delimiter, quoting=quoting, lineterminator="\n")
    writer.writeheader()
    writer.writerows(FILMS)
    return text.getvalue()


def compress(content: bytes) -> bytes:
    """Return content compressed by zstd."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return sink.getvalue().to_pybytes()


def write_workbook() -> bytes:
    """Return a workbook as spreadsheets write it, with shared strings, and titles in a second sheet."""
    strings = [*FILMS[0], *(film["id"] for film in FILMS), *(film["title"] for film in FILMS)]
    rows = ["".join(f'<c r="{letter}1" t="s"><v>{place}</v></c>' for place, letter in enumerate("ABCD"))]
    for number, film in enumerate(FILMS):
        place = number + 2
        rows.append(
            f'<c r="A{place}" t="s"><v>{4 + number}</v></c><c r="B{place}" t="s"><v>{24 + number}</v></c>'
            f'<c r="C{place}"><v>{film["year"]}</v></c><c r="D{place}" s="1"><v>{film["score"]}</v></c>'
        )
    cells = "".join(f'<row r="{number}">{row}</row>' for number, row in enumerate(rows, 1))
    escaped = [text.replace("&", "&amp;").replace("<", "&lt;") for text in strings]
    parts = {
        "[Content_Types].xml": "<Types/>",
        "_rels/.rels": relate(("officeDocument", "xl/workbook.xml")),
        "xl/workbook.xml": f'<workbook xmlns="{SHEET}" xmlns:r="{PLACES}"><sheets><sheet name="Films" sheetId="1" '
        'r:id="r0"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": relate(
            ("worksheet", "worksheets/sheet1.xml"), ("sharedStrings", "sharedStrings.xml"), ("styles", "styles.xml")
        ),
        "xl/styles.xml": f'<styleSheet xmlns="{SHEET}"><cellXfs><xf numFmtId="0"/><xf numFmtId="2"/></cellXfs>'
        "</styleSheet>",
        "xl/sharedStrings.xml": f'<sst xmlns="{SHEET}">{"".join(f"<si><t>{text}</t></si>" for text in escaped)}</sst>',
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{SHEET}"><dimension ref="A1:D21"/><sheetData>{cells}'
        "</sheetData></worksheet>",
    }
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in parts.items():
            archive.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), part, zipfile.ZIP_DEFLATED)
    return content.getvalue()


def relate(*targets: tuple[str, str]) -> str:
    """Return the relations of a part."""
    lines = (
        f'<Relationship Id="r{place}" Type="{PLACES}/{kind}" Target="{target}"/>'
        for place, (kind, target) in enumerate(targets)
    )
    return f"<Relationships>{''.join(lines)}</Relationships>"


if __name__ == "__main__":
    main()
