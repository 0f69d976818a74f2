"""Draws weighted call stacks as a flame graph: an SVG with a script, which loads nothing from elsewhere. A box is a
function, and its width is the weight of the function and its callees. A click enlarges a box to the full width."""

import hashlib
import html

WIDTH, ROW = 1400, 17

# One hue for each kind of code.
HUES = {"kernel": 265, "libsqlite3": 150, "swift": 205, "libc": 40, "libdispatch": 190}


class Node:
    __slots__ = ("children", "weight")

    def __init__(self):
        self.children, self.weight = {}, 0


def tree(weights):
    root = Node()
    for stack, weight in weights.items():
        root.weight += weight
        node = root
        for frame in stack:
            node = node.children.setdefault(frame, Node())
            node.weight += weight
    return root


def depth(node, least):
    return 1 + max((depth(child, least) for child in node.children.values() if child.weight >= least), default=0)


def colour(name, module, ours):
    shade = hashlib.md5(name.encode()).digest()[0] / 255
    if module in ours:
        return f"hsl({8 + 34 * shade:.0f} 88% {62 + 8 * shade:.0f}%)"
    hue = HUES.get(module, 320)
    return f"hsl({hue} 42% {68 + 8 * shade:.0f}%)"


def draw(weights, title, ours):
    root = tree(weights)
    least = root.weight / 2500  # half a pixel
    rows = depth(root, least) - 1
    height = 66 + rows * ROW
    boxes = []

    def place(node, x, level):
        for frame, child in sorted(node.children.items()):
            if child.weight >= least:
                boxes.append((x, level, child.weight, *frame))
                place(child, x, level + 1)
            x += child.weight

    place(root, 0, 0)
    parts = [HEAD.replace("WIDTH", str(WIDTH)).replace("HEIGHT", str(height)).replace("TITLE", html.escape(title))]
    for x, level, weight, name, module in boxes:
        left, width = x / root.weight * WIDTH, weight / root.weight * WIDTH
        top = height - 28 - (level + 1) * ROW
        share = f"{100 * weight / root.weight:.2f} %"
        shown = html.escape(name if len(name) * 6.6 < width - 6 else name[: max(0, int((width - 6) / 6.6) - 1)] + "…")
        parts.append(
            f'<g data-x="{left:.3f}" data-w="{width:.3f}" data-n="{html.escape(name, quote=True)}">'
            f"<title>{html.escape(name)} ({html.escape(module)}), {share}</title>"
            f'<rect x="{left:.2f}" y="{top}" width="{max(width - 0.4, 0.3):.2f}" height="{ROW - 1}" '
            f'fill="{colour(name, module, ours)}" rx="1"/>'
            f'<text x="{left + 3:.2f}" y="{top + 12}">{shown if width > 24 else ""}</text></g>')
    parts.append(SCRIPT.replace("WIDTH", str(WIDTH)) + "</svg>\n")
    return "\n".join(parts)


HEAD = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 WIDTH HEIGHT" width="WIDTH" height="HEIGHT">
<style>
  svg { background: #fff; --text: #1c2128 } .head { fill: var(--text) }
  @media (prefers-color-scheme: dark) { svg { background: #0d1117; --text: #e6edf3 } }
  text { font: 11px ui-monospace, 'DejaVu Sans Mono', monospace; fill: #16181d; pointer-events: none }
  .head { font: 600 15px system-ui, 'DejaVu Sans', sans-serif } g { cursor: pointer } g:hover rect { stroke: #16181d }
</style>
<text class="head" x="10" y="24">TITLE</text>
<text class="head" id="told" x="10" y="44" style="font-weight:400;font-size:12px">Warm: Dwell. Violet: the kernel. Green: SQLite. Blue: Swift's runtime. A click shows a box alone; a click on the ground, all.</text>"""

SCRIPT = """<script><![CDATA[
(function () {
  const boxes = [...document.querySelectorAll('g')];
  function show(left, width) {
    for (const box of boxes) {
      const from = (box.dataset.x - left) / width * WIDTH, wide = box.dataset.w / width * WIDTH;
      const seen = from + wide > 0.01 && from < WIDTH - 0.01;
      box.style.display = seen ? '' : 'none';
      if (!seen) continue;
      const x = Math.max(from, 0), w = Math.min(from + wide, WIDTH) - x;
      const rect = box.querySelector('rect'), text = box.querySelector('text');
      rect.setAttribute('x', x); rect.setAttribute('width', Math.max(w - 0.4, 0.3));
      text.setAttribute('x', x + 3);
      const room = Math.floor((w - 6) / 6.6), name = box.dataset.n;
      text.textContent = w < 24 ? '' : name.length <= room ? name : name.slice(0, room - 1) + '\\u2026';
    }
  }
  for (const box of boxes) box.addEventListener('click', function (event) {
    event.stopPropagation(); show(+box.dataset.x, +box.dataset.w);
  });
  document.documentElement.addEventListener('click', function () { show(0, WIDTH); });
})();
]]></script>"""
