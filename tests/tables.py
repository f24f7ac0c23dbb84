#!/usr/bin/env python3
"""The tables of studies, as pandas and DuckDB see them.

    tests/tables.py STUDY_DIR...

The columns must be those of docs/study.md, "Tables", with their types; each cell of the Parquet files must be that of
the CSV files; each row of `points` must follow from its rows of `runs`. Needs pandas, pyarrow and duckdb.
"""

import csv
import json
import math
import re
import sys
from collections import Counter
from pathlib import Path

import duckdb
import pandas
import pyarrow.parquet

DOCS = Path(__file__).parent.parent / "docs" / "study.md"
# 97.5 % quantiles of Student's t for 1, 2, .. degrees of freedom
STUDENT = [12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622]
PANDAS = {"INT64": "int64", "DOUBLE": "float64", "BOOLEAN": "bool", "STRING": "str"}
DUCKDB = {"INT64": "BIGINT", "DOUBLE": "DOUBLE", "BOOLEAN": "BOOLEAN", "STRING": "VARCHAR"}


def expect(condition, *message):
    if not condition:
        sys.exit("FAILED: " + " ".join(str(part) for part in message))


def documented(name):
    """The columns of a table in the documentation: (name, types)."""
    section = re.search(r"^## Tables$(.*?)(^## |\Z)", DOCS.read_text(), re.M | re.S)
    expect(section, DOCS, "has no section Tables")
    table = re.search(rf"^`{name}`:\n\n((?:\|.*\n)+)", section[1], re.M)
    expect(table, DOCS, "does not document", name)
    rows = re.findall(r"^\| `(\w+)` \| ([A-Z0-9 or]+?) \|", table[1], re.M)
    return [(column, types.split(" or ")) for column, types in rows]


def columns(name, header, fields):
    """Types that the documentation allows for each column of a header."""
    table = documented(name)
    number = len(header) - sum(n not in ("AXIS", "FIELD", "FIELD_ci95") for n, _ in table)
    per_field = sum(n.startswith("FIELD") for n, _ in table)
    axes = number - per_field * len(fields)
    expect(axes >= 1, name, "has no column of an axis:", header)
    expected = []
    for column, types in table:
        if column == "AXIS":
            place = len(expected)
            expected += [(axis, types) for axis in header[place : place + axes]]
        elif column == "FIELD":
            suffixes = ["", "_ci95"][:per_field]
            expected += [(field + suffix, types) for field in fields for suffix in suffixes]
        elif column != "FIELD_ci95":
            expected.append((column, types))
    for place in range(max(len(header), len(expected))):
        found = header[place] if place < len(header) else "nothing"
        right = expected[place][0] if place < len(expected) else "nothing"
        expect(found == right, f"{name}: column {place + 1} is {found}, and {right} is documented")
    for column in header:
        expect(re.fullmatch(r"[A-Za-z0-9_]+", column), f"{name}: a column is called {column!r}")
    twice = [column for column, times in Counter(map(str.lower, header)).items() if times > 1]
    expect(not twice, name, "has two columns called", twice)
    return dict(expected)


def value(text, kind):
    """The value of a cell of CSV."""
    if text == "":
        return None
    if kind == "BOOLEAN":
        expect(text in ("true", "false"), text, "is no flag")
        return text == "true"
    return {"INT64": int, "DOUBLE": float, "STRING": str}[kind](text)


def same(a, b):
    """Equal to the bit; None is equal to None alone."""
    return type(a) is type(b) and (a == b if not isinstance(a, float) else a.hex() == b.hex())


def read(folder, name, fields):
    """A table as rows of values, once all ways to read it agree; and how many cells are null."""
    with open(folder / f"{name}.csv", newline="", encoding="utf-8") as file:
        header, *lines = csv.reader(file, strict=True)
    types = columns(name, header, fields)
    parquet = folder / f"{name}.parquet"
    schema = pyarrow.parquet.read_schema(parquet)
    expect(schema.names == header, parquet, "has other columns than its CSV file:", schema.names)
    arrow = {"int64": "INT64", "double": "DOUBLE", "string": "STRING", "bool": "BOOLEAN"}
    kinds = {field.name: arrow.get(str(field.type), str(field.type)) for field in schema}
    for column, kind in kinds.items():
        expect(kind in types[column], parquet, column, "is", kind, "and is documented as", types[column])

    frame = pandas.read_parquet(parquet)
    expect(list(frame.columns) == header and len(frame) == len(lines), "pandas reads", frame.shape)
    relation = duckdb.read_parquet(str(parquet))
    expect(relation.columns == header, "DuckDB reads the columns", relation.columns)
    expect([str(t) for t in relation.types] == [DUCKDB[kinds[c]] for c in header], "DuckDB reads", relation.types)
    duck = relation.fetchall()
    expect(len(duck) == len(lines), "DuckDB reads", len(duck), "rows of", len(lines))
    rows, nulls = [], 0
    for number, line in enumerate(lines):
        expect(len(line) == len(header), f"{name}.csv: row {number + 1} has {len(line)} cells of {len(header)}")
        row = {column: value(text, kinds[column]) for column, text in zip(header, line)}
        for place, (column, cell) in enumerate(row.items()):
            where = f"{name}, row {number + 1}, {column}:"
            expect(same(duck[number][place], cell), where, "DuckDB has", duck[number][place], "and CSV", cell)
            seen = frame[column].iloc[number]
            seen = None if pandas.isna(seen) else seen.item() if hasattr(seen, "item") else seen
            expect(same(seen, cell), where, "pandas has", repr(seen), "and CSV", repr(cell))
            nulls += cell is None
        rows.append(row)
    for column, kind in kinds.items():
        seen = str(frame[column].dtype)
        expect(seen == PANDAS[kind] or kind == "STRING" and seen == "object", "pandas takes", column, "for", seen)
    return rows, nulls


def close(a, b, relative):
    if a is None or b is None:
        return a is b
    return math.isclose(a, b, rel_tol=relative, abs_tol=1e-300)


def follows(point, runs, fields):
    """A row of `points` is what its runs say."""
    where = f"point {point['point']}:"
    expect(point["runs"] == len(runs) >= 1, where, point["runs"], "runs, and", len(runs), "rows of runs")
    for column in [column for column in point if column in runs[0] and column not in fields]:
        if column in ("outcome", "broken", "error"):
            continue
        expect(all(same(run[column], point[column]) for run in runs), where, column, "differs from its runs")
    expect(len({run["seed"] for run in runs}) == len(runs), where, "a seed is there twice")
    ended = [run["outcome"] for run in runs if run["outcome"] != "completed"]
    expect(point["outcome"] == (ended or ["completed"])[0], where, "outcome", point["outcome"], "of", ended)
    broken = {key for run in runs for key in (run["broken"] or "").split()}
    expect(set((point["broken"] or "").split()) == broken, where, "broken", point["broken"], "of", broken)
    errors = [run["error"] for run in runs if run["error"]]
    expect(point["error"] == (errors or [None])[0], where, "error", point["error"], "of", errors)
    expect(point["good"] == (not broken and not errors), where, "good is", point["good"])
    expect(point["good"] or not point["front"], where, "in front and not good")
    for field in fields:
        values = [run[field] for run in runs if run[field] is not None]
        mean = math.fsum(values) / len(values) if values else None
        expect(close(point[field], mean, 1e-12), where, field, point[field], "and the mean of the runs is", mean)
        n, half = len(values), None
        if n > 1 and n - 2 < len(STUDENT):
            half = STUDENT[n - 2] * math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (n - 1) / n)
        found = point[f"{field}_ci95"]
        expect((found is None) == (n < 2), where, field, "has a confidence interval of", found, "from", n, "runs")
        if half is not None:
            # what is left of rounding where all runs have one value does not count
            right = math.isclose(found, half, rel_tol=1e-3, abs_tol=1e-12 * abs(mean))
            expect(right, where, f"{field}_ci95", found, "and the runs say", half)


def check(folder):
    expect((folder / "manifest.json").is_file(), folder, "is no directory of a study")
    fields = json.loads((folder / "manifest.json").read_text())["columns"]
    points, nulls = read(folder, "points", fields)
    runs, more = read(folder, "runs", fields)
    expect(points, "no rows in", folder)
    numbers = [row["point"] for row in points]
    expect(numbers == sorted(set(numbers)), "points are not in order, or there twice:", numbers)
    order = [(run["point"], run["seed"]) for run in runs]
    expect(order == sorted(set(order)), "runs are not in order, or there twice")
    expect({run["point"] for run in runs} == set(numbers), "runs of other points than those of points")
    for point in points:
        follows(point, [run for run in runs if run["point"] == point["point"]], fields)
    by_point = duckdb.sql(f"select point, avg({fields[0]}) from '{quoted(folder / 'runs.parquet')}' group by point")
    expect(len(by_point.fetchall()) == len(points), "DuckDB groups the runs otherwise")
    frame = pandas.read_parquet(folder / "points.parquet")
    good = sum(point["good"] for point in points)
    expect(len(frame[frame.good]) == good, "pandas selects other points as good")
    cells = len(points) * len(points[0]) + len(runs) * len(runs[0])
    print(f"{folder.name}: {len(points)} points ({good} good), {len(runs)} runs, {cells} cells, {nulls + more} of them null")


def quoted(path):
    return str(path).replace("'", "''")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    for argument in sys.argv[1:]:
        check(Path(argument))
    print(f"PASS (pandas {pandas.__version__}, pyarrow {pyarrow.__version__}, DuckDB {duckdb.__version__})")
