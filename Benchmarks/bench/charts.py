"""Draws bar charts and line charts as SVG. The charts are readable on light and dark pages."""

import html

WIDTH = 760
STYLE = """
  svg { --surface: #ffffff; --text: #1c2128; --muted: #59636e; --grid: #d8dee4; --ours: #1f6feb; --other: #9aa4af; --range: #1c2128; --second: #bf5700 }
  @media (prefers-color-scheme: dark) {
    svg { --surface: #0d1117; --text: #e6edf3; --muted: #9198a1; --grid: #30363d; --ours: #4493f8; --other: #6e7681; --range: #e6edf3; --second: #f0883e }
  }
  text { font: 13px system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif; fill: var(--text) }
  .title { font-weight: 600; font-size: 15px }
  .note { fill: var(--muted); font-size: 12px }
  .surface { fill: var(--surface) } .grid { stroke: var(--grid) } .range { stroke: var(--range); stroke-width: 1.5 }
  .ours { fill: var(--ours) } .other { fill: var(--other) } .second { fill: var(--second) }
  .line { stroke: var(--ours); fill: none; stroke-width: 2 }
"""


def text(x, y, words, name="", anchor="start"):
    name = f' class="{name}"' if name else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{name} text-anchor="{anchor}">{html.escape(str(words))}</text>'


def document(height, title, parts):
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" aria-label="{html.escape(title)}">',
        f"<style>{STYLE}</style>", f'<rect class="surface" width="{WIDTH}" height="{height}"/>',
        text(16, 26, title, "title"), *parts, "</svg>", ""])


def step(top, count=5):
    """Returns the distance between grid lines: 1, 2 or 5 times a power of ten."""
    rough = max(top, 1e-9) / count
    power = 10.0
    while power > rough:
        power /= 10
    while power * 10 <= rough:
        power *= 10
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)


def number(value):
    if value >= 1_000_000:
        return f"{value / 1e6:g}M"
    if value >= 10000:
        return f"{value / 1000:,.0f}k"
    if value >= 1000:
        return f"{value / 1000:.1f}k"
    return f"{value:.0f}" if value >= 10 or value == 0 else f"{value:.1f}"


def bars(title, rows, unit):
    """Draws a bar for each row. A row is (label, median, minimum, maximum, class). The bar shows the median, and a line
    on it shows the range."""
    left, right, top, pitch = 190, WIDTH - 90, 44, 30
    most = max(row[3] for row in rows) or 1
    scale = (right - left) / most
    bottom = top + pitch * len(rows)
    parts = []
    value, apart = 0.0, step(most)
    while value <= most * 1.0001:
        x = left + value * scale
        parts.append(f'<line class="grid" x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{bottom}"/>')
        parts.append(text(x, bottom + 18, number(value), "note", "middle"))
        value += apart
    for place, (label, median, least, greatest, name) in enumerate(rows):
        y = top + place * pitch
        middle = y + pitch / 2
        parts.append(text(left - 10, middle + 4, label, anchor="end"))
        parts.append(f'<rect class="{name}" x="{left}" y="{y + 5}" width="{max(median * scale, 1):.1f}" height="{pitch - 10}" rx="2"/>')
        if greatest > least:
            ends = (left + least * scale, left + greatest * scale)
            parts.append(f'<line class="range" x1="{ends[0]:.1f}" y1="{middle}" x2="{ends[1]:.1f}" y2="{middle}"/>')
            for end in ends:
                parts.append(f'<line class="range" x1="{end:.1f}" y1="{middle - 5}" x2="{end:.1f}" y2="{middle + 5}"/>')
        parts.append(text(left + max(median, greatest) * scale + 8, middle + 4, number(median)))
    parts.append(text(right, bottom + 36, unit, "note", "end"))
    return document(bottom + 46, title, parts)


def line(title, points, unit_x, unit_y, limit=None):
    """Draws a line through `points`: pairs (x, y), sorted by x. A dashed line marks the y value `limit`."""
    left, right, top, bottom = 70, WIDTH - 30, 50, 280
    most_x = max(x for x, _ in points)
    most_y = max([y for _, y in points] + ([limit] if limit else [])) * 1.05
    place = lambda x, y: (left + x / most_x * (right - left), bottom - y / most_y * (bottom - top))
    parts = []
    value, apart = 0.0, step(most_y)
    while value <= most_y:
        y = place(0, value)[1]
        parts.append(f'<line class="grid" x1="{left}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>')
        parts.append(text(left - 8, y + 4, number(value), "note", "end"))
        value += apart
    value, apart = 0.0, step(most_x)
    while value <= most_x * 1.0001:
        parts.append(text(place(value, 0)[0], bottom + 20, number(value), "note", "middle"))
        value += apart
    if limit:
        y = place(0, limit)[1]
        parts.append(f'<line class="range" stroke-dasharray="5 4" x1="{left}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>')
        parts.append(text(right, y - 6, f"bar: {number(limit)} {unit_y}", "note", "end"))
    path = " ".join("%.1f,%.1f" % place(x, y) for x, y in points)
    parts.append(f'<polyline class="line" points="{path}"/>')
    for x, y in points:
        parts.append('<circle class="ours" cx="%.1f" cy="%.1f" r="3.5"/>' % place(x, y))
    parts.append(text(right, bottom + 38, unit_x, "note", "end"))
    parts.append(text(16, 42, unit_y, "note"))
    return document(bottom + 48, title, parts)
