#!/usr/bin/env python3
"""Draws measured ratios as bars, in an SVG that is read on a light page and on a dark one.

  bars.py RUN.json --table TEXT --out FILE.svg        what `./dev bench NAME -- --json RUN.json` wrote
  bars.py bench/README.md --table TEXT --out FILE.svg   a table of recorded figures; TEXT is in the line of its heads

A bar begins at 1, as fast as what it is held against, and goes to the right where Towpath is faster; its axis is logarithmic, so
that twice and half as fast are as far from 1. The thin line is the middle half of the rounds. A ratio beyond the axis is cut, and its
number stands. --column takes another column of a table with several.
"""
import argparse
import html
import json
import math
import re
import sys
from pathlib import Path

WIDTH, NAMES, RIGHT, ROW, TOP = 760, 300, 60, 26, 74
STYLE = """.bars{font:13px system-ui,-apple-system,"Segoe UI",sans-serif}.bars text{fill:#57606a}
.bars .title{font-size:16px;font-weight:600}.bars .title,.bars .name,.bars .value{fill:#1f2328}
.bars .grid{stroke:#8b949e;stroke-opacity:.35}.bars .one{stroke:#57606a}.bars .range{stroke:#57606a;stroke-width:1.5}
.bars .faster{fill:#2f81c7}.bars .slower{fill:#d9730d}
@media (prefers-color-scheme:dark){.bars text{fill:#9aa4af}.bars .title,.bars .name,.bars .value{fill:#e6edf3}
.bars .one,.bars .range{stroke:#c9d1d9}}"""


def of_json(path, wanted):
    """(name, median, low, high) of each row of the table with these words in its title."""
    tables = [table for table in json.loads(path.read_text())["tables"] if wanted in table["title"]]
    if len(tables) != 1:
        sys.exit(f"bars: {len(tables)} tables have {wanted!r} in their title")
    return [(row["name"], *(row["ratio"][key] for key in ("median", "low", "high")))
            for row in tables[0]["cases"] if row.get("ratio")]


def of_markdown(path, wanted, column):
    """The same of a table of Markdown with these words in the line of its heads: cells like "2 us / 4 us: 1.96 (1.73 .. 2.04)"."""
    tables = [block.splitlines() for block in re.findall(r"(?:^\|.*\n)+", path.read_text(), re.M)]
    found = [lines for lines in tables if wanted in lines[0]]
    if len(found) != 1:
        sys.exit(f"bars: {len(found)} tables have {wanted!r} in the line of their heads")
    rows = []
    for line in found[0][2:]:
        cells = [cell.strip() for cell in line.strip("|\n").split("|")]
        ratio = re.search(r": ([\d.]+)(?: \(([\d.]+) \.\. ([\d.]+)\))?", cells[column])
        if ratio:
            median = float(ratio[1])
            rows.append((cells[0].replace("`", ""), median, float(ratio[2] or median), float(ratio[3] or median)))
    return rows


def draw(title, note, rows, least, most):
    """The text of the picture."""
    area = WIDTH - NAMES - RIGHT
    height = TOP + ROW * len(rows) + 12

    def at(ratio):
        inside = min(max(ratio, least), most)
        return NAMES + area * math.log(inside / least) / math.log(most / least)

    parts = [f'<svg class="bars" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
             f'role="img" aria-label="{html.escape(title)}"><style>{STYLE}</style>',
             f'<text class="title" x="8" y="22">{html.escape(title)}</text><text x="8" y="42">{html.escape(note)}</text>']
    tick = least
    while tick <= most * 1.001:
        kind = "one" if abs(tick - 1) < 1e-9 else "grid"
        parts.append(f'<line class="{kind}" x1="{at(tick):.1f}" x2="{at(tick):.1f}" y1="{TOP - 6}" y2="{height - 10}"/>'
                     f'<text x="{at(tick):.1f}" y="{TOP - 12}" text-anchor="middle">{tick:g}x</text>')
        tick *= 2
    for index, (name, median, low, high) in enumerate(rows):
        y = TOP + ROW * index
        left, right = sorted((at(1), at(median)))
        parts.append(f'<text class="name" x="{NAMES - 10}" y="{y + 15}" text-anchor="end">{html.escape(name)}</text>'
                     f'<rect class="{"faster" if median >= 1 else "slower"}" x="{left:.1f}" y="{y + 3}" width="{right - left:.1f}" height="16" rx="2"/>')
        if high > low:
            parts.append(f'<line class="range" x1="{at(low):.1f}" x2="{at(high):.1f}" y1="{y + 11}" y2="{y + 11}"/>')
        end = max(at(median), at(high), at(1)) + 6
        shown = (f"{median:.2f}" if median < 10 else f"{median:.0f}") + (" \u2192" if median > most else "")
        parts.append(f'<text class="value" x="{min(end, WIDTH - RIGHT + 6):.1f}" y="{y + 15}">{shown}</text>')
    return "\n".join(parts) + "</svg>\n"


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("source", type=Path)
    arguments.add_argument("--table", required=True, metavar="TEXT")
    arguments.add_argument("--column", type=int, default=1, help="of a table of Markdown; the names have 0")
    arguments.add_argument("--title", required=True)
    arguments.add_argument("--note", default="")
    arguments.add_argument("--least", type=float, default=0.5, help="where the axis begins")
    arguments.add_argument("--most", type=float, default=8.0, help="where it ends")
    arguments.add_argument("--out", type=Path, required=True)
    args = arguments.parse_args()
    rows = of_json(args.source, args.table) if args.source.suffix == ".json" else of_markdown(args.source, args.table, args.column)
    if not rows:
        sys.exit("bars: no ratio in that table")
    args.out.write_text(draw(args.title, args.note, rows, args.least, args.most))


if __name__ == "__main__":
    main()
