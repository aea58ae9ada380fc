"""The Markdown tables of bench/scaling.py, from its JSON file."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

Row = dict[str, Any]
Saved = dict[str, Any]

BEGIN, END = "<!-- begin: bench/scaling.py {} -->", "<!-- end: bench/scaling.py {} -->"


def number(value: float) -> str:
    """Return a number to three digits."""
    return f"{value:.0f}" if abs(value) >= 1000.0 else f"{value:.3g}"


def grid(title: str, rows: list[Row], lines: dict[str, Callable[[Row], float | None]]) -> list[str]:
    """Return a table with a column for each x.

    Args:
        title: over the names of the lines.
        rows: rows of one sweep.
        lines: by name, the figure of a row, None where the row belongs to another line.
    """
    columns = list(dict.fromkeys(row["x"] for row in rows))
    out = [f"| {title} | " + " | ".join(map(str, columns)) + " |", "|---|" + "---|" * len(columns)]
    for name, figure in lines.items():
        cells = {row["x"]: cell for row in rows if (cell := _cell(row, figure)) is not None}
        if cells:
            out.append(f"| {name} | " + " | ".join(cells.get(x, "") for x in columns) + " |")
    return [*out, ""]


def _cell(row: Row, figure: Callable[[Row], float | None]) -> str | None:
    """Return the figure of a row as text, or that it failed."""
    value = figure(row)
    if value is None:
        return None
    return "failed" if math.isnan(value) else number(value)


def timed(tool: str, what: str, scale: Callable[[float], float], **where: Any) -> Any:
    """Return the figure of rows of one tool: a scaled time, nan where the row failed."""

    def figure(row: Row) -> float | None:
        if row["tool"] != tool or any(row.get(key) != value for key, value in where.items()):
            return None
        if "failed" in row:
            return math.nan
        return scale(row[what]["us"]) if what in row else None

    return figure


def _same(us: float) -> float:
    return us


def _rate(us: float) -> float:
    """Return thousands for each second."""
    return 1e3 / us


def batch(rows: list[Row]) -> list[str]:
    """Return world-steps per second by worlds or threads."""
    lines = {
        f"{tool}, {what}": timed(tool, what, _rate)
        for tool in dict.fromkeys(row["tool"] for row in rows)
        for what in ("forward", "backward")
    }
    return lines and grid("thousand world-steps a second", rows, lines)


def links(rows: list[Row]) -> list[str]:
    """Return microseconds by scene."""
    scenes = dict.fromkeys(row["scene"] for row in rows)
    lines = {
        f"{scene}: {tool}, {what}": timed(tool, what, _same, scene=scene)
        for scene in scenes
        for tool in ("featherback", "MuJoCo")
        for what in ("forward", "backward")
    }
    return grid("us for each step", rows, lines)


def exponents(rows: list[Row]) -> list[str]:
    """Return the exponent of the time in the number of links, over all sizes."""
    out: list[str] = []
    for scene in dict.fromkeys(row["scene"] for row in rows):
        parts: list[str] = []
        for tool, what in (
            ("featherback", "forward"),
            ("featherback", "backward"),
            ("MuJoCo", "forward"),
        ):
            of = [r for r in rows if r["scene"] == scene and r["tool"] == tool]
            slope = _slope([(math.log(r["x"]), math.log(r[what]["us"])) for r in of])
            parts.append(f"{tool} {what} {slope:.2f}")
        out.append(f"- {scene}, exponent of the time in the number of links: {', '.join(parts)}.")
    return out


def _slope(points: list[tuple[float, float]]) -> float:
    """Return the slope of a line by least squares."""
    x, y = (sum(p[i] for p in points) / len(points) for i in (0, 1))
    return sum((a - x) * (b - y) for a, b in points) / sum((a - x) ** 2 for a, _ in points)


def contacts(rows: list[Row]) -> list[str]:
    """Return microseconds by scene, and the share of solves that did not finish."""

    def unfinished(scene: str, tool: str) -> Callable[[Row], float | None]:
        return lambda r: 100 * r["unfinished"] if (r["scene"], r["tool"]) == (scene, tool) else None

    shares = {
        f"{scene}: {tool}": unfinished(scene, tool)
        for scene in dict.fromkeys(row["scene"] for row in rows)
        for tool in ("featherback", "MuJoCo")
    }
    table = grid("% of solves cut off at the cap", rows, shares)
    return [*links(rows), *table, *slower(rows)]


def slower(rows: list[Row]) -> list[str]:
    """Return for each scene where MuJoCo's forward step takes less time than ours."""
    out: list[str] = []
    for scene in dict.fromkeys(row["scene"] for row in rows):
        of = {(r["tool"], r["x"]): r["forward"]["us"] for r in rows if r["scene"] == scene}
        pairs = {x: (us, of["MuJoCo", x]) for (tool, x), us in of.items() if tool != "MuJoCo"}
        ahead = [
            f"{x} ({mine / theirs:.2g}x)" for x, (mine, theirs) in pairs.items() if mine > theirs
        ]
        if ahead:
            out.append(f"- {scene}: MuJoCo's step takes less time at {', '.join(ahead)}.")
    return out


def horizon(rows: list[Row]) -> list[str]:
    """Return microseconds of each step."""
    tool = rows[0]["tool"]
    lines = {what: timed(tool, what, _same) for what in ("forward", "backward")}
    return grid(f"us for each step, {tool}", rows, lines)


def memory(rows: list[Row]) -> list[str]:
    """Return measured peaks, and what sim.memory predicts."""

    def peak(tool: str) -> Callable[[Row], float | None]:
        return lambda r: r.get("peak_mb", math.nan) if r["tool"] == tool else None

    def predicted(tool: str) -> Callable[[Row], float | None]:
        def figure(row: Row) -> float | None:
            if row["tool"] != tool or "failed" in row:
                return None
            return row["predicted_mb"]["states"] + row["predicted_mb"]["controls"]

        return figure

    tools = dict.fromkeys(row["tool"] for row in rows)
    out = grid("peak MB above the idle process", rows, {f"`{t}`": peak(t) for t in tools})
    title = "MB that `sim.memory` predicts: states and controls"
    out += grid(title, rows, {f"`{t}`": predicted(t) for t in tools})
    back = {f"`{t}`": timed(t, "backward", _same) for t in tools}
    out += grid("backward, us for each step", rows, back)
    good = [row for row in rows if "failed" not in row]
    rest = [r["peak_mb"] - sum(r["predicted_mb"][k] for k in ("states", "controls")) for r in good]
    workspace = max(row["predicted_mb"]["workspace"] for row in good)
    return [
        *out,
        f"- Peak beyond states and controls: {min(rest):.2f} to {max(rest):.2f} MB; workspace that "
        f"`sim.memory` predicts: {workspace:.3g} MB.",
    ]


def ablation(rows: list[Row]) -> list[str]:
    """Return one table for each number of robots, a line for each schedule."""
    out: list[str] = []
    for robots in dict.fromkeys(row["robots"] for row in rows):
        of = [row for row in rows if row["robots"] == robots]
        who = "One Laikago" if robots == 1 else f"{robots} Laikagos"
        out += [
            f"| {who}, {of[0]['x']} steps | states kept | peak MB | MB predicted | "
            "forward us | backward us | backward / forward | gradient and that of `step` |",
            "|---|---|---|---|---|---|---|---|",
        ]
        for row in of:
            if "failed" in row:
                out.append(f"| {row['tool']} | {row['failed']} |" + " |" * 6)
                continue
            forward, backward = (row[k]["us"] for k in ("forward", "backward"))
            predicted = row.get("predicted_mb", {})
            cells = (
                str(row.get("kept", "all")),
                number(row["peak_mb"]),
                number(predicted["states"] + predicted["controls"]) if predicted else "",
                *(number(x) for x in (forward, backward, backward / forward)),
                {True: "bitwise identical", False: "DIFFERENT"}.get(row.get("same_bits"), ""),
            )
            name = f"`{row['tool']}`" if "same_bits" in row else row["tool"]
            out.append(f"| {name} | " + " | ".join(cells) + " |")
        out.append("")
    return out


def ten(rows: list[Row]) -> list[str]:
    """Return memory and times of ten robots by steps."""
    tools = list(dict.fromkeys(row["tool"] for row in rows))

    def peak(tool: str) -> Callable[[Row], float | None]:
        return lambda r: r.get("peak_mb", math.nan) if r["tool"] == tool else None

    lines: dict[str, Any] = {f"{tool}, peak MB": peak(tool) for tool in tools}
    for what in ("forward", "backward"):
        lines |= {f"{tool}, {what} us": timed(tool, what, _same) for tool in tools}
    out = grid("ten Laikagos in one world", rows, lines)
    failed = [row for row in rows if "failed" in row]
    return [*out, *(f"- {r['tool']} at {r['x']} steps: {r['failed']}." for r in failed[:1])]


def jacobian(rows: list[Row]) -> list[str]:
    """Return the time of all of A and B by degrees of freedom."""
    tools = dict.fromkeys(row["tool"] for row in rows)
    out = grid("A and B in full, us", rows, {t: timed(t, "time", _same) for t in tools})
    exact = {row["x"]: row["time"]["us"] for row in rows if row["tool"] == "linearize"}
    ratios = {
        t: lambda r, t=t: r["time"]["us"] / exact[r["x"]] if r["tool"] == t else None
        for t in tools
        if t != "linearize"
    }
    out += grid("the same, as multiples of `linearize`", rows, ratios)
    error = max(row["error"] for row in rows)
    return [*out, f"- Our differences agree with `linearize` to {error:.1e}."]


TABLES: dict[str, Callable[[list[Row]], list[str]]] = {
    "batch": batch,
    "threads": batch,
    "links": lambda rows: [*links(rows), *exponents(rows), *slower(rows)],
    "contacts": contacts,
    "horizon": horizon,
    "memory": memory,
    "ablation": ablation,
    "ten": ten,
    "jacobian": jacobian,
}


def _timings(value: Any) -> list[Row]:
    """Return every timing in a row."""
    if not isinstance(value, dict):
        return []
    if "quiet" in value:
        return [value]
    return [timing for part in value.values() for timing in _timings(part)]


def origin(sweep: Saved) -> list[str]:
    """Return where and how the figures of a sweep were taken."""
    facts = sweep["provenance"]
    timings = [timing for row in sweep["rows"] for timing in _timings(row)]
    spreads = sorted((t["high_us"] - t["low_us"]) / t["us"] / 2 for t in timings)
    lonely = sum(t["quiet"] == 0 for t in timings)
    text = (
        f"- {facts['processor']}, {facts['cores']} cores, load {facts['load'][0]:.1f} before; "
        f"featherback {facts['featherback']} ({facts['isa']}), MuJoCo {facts['mujoco']}; "
        f"commit {str(facts['commit'])[:12]}{' with changes' if facts['modified'] else ''}"
        f"{'; a quick run' if facts['quick'] else ''}."
    )
    if spreads:
        text += (
            f" Half the distance of the quartiles: {100 * spreads[len(spreads) // 2]:.1f} % in the "
            f"middle, {100 * spreads[-1]:.0f} % at most."
        )
    if lonely:
        text += (
            f" {lonely} of {len(timings)} times have no sample without an interruption and are "
            "processor times."
        )
    return [text]


def section(name: str, sweep: Saved) -> str:
    """Return the tables of one sweep and where they come from."""
    return "\n".join([*TABLES[name](sweep["rows"]), *origin(sweep)])


def page(saved: Saved) -> str:
    """Return the tables of all sweeps."""
    return "\n\n".join(f"{name}\n\n{section(name, sweep)}" for name, sweep in saved.items())


def put_into(text: str, saved: Saved) -> str:
    """Return the page with the tables of every saved sweep between its two marks."""
    for name, sweep in saved.items():
        begin, end = BEGIN.format(name), END.format(name)
        before, rest = text.split(begin)
        after = rest.split(end)[1]
        text = f"{before}{begin}\n{section(name, sweep)}\n{end}{after}"
    return text
