"""exposition.py FILE: reports where a text violates the Prometheus exposition format 0.0.4, as promtool would."""

import re
import sys

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)?\}})? (-?[0-9.]+(?:e[-+]?[0-9]+)?|[+-]Inf|NaN)")


def problems(text):
    """Yields one line for each violation."""
    if not text.endswith("\n"):
        yield "the last line has no end"
    helped, types, seen, histograms = set(), {}, set(), {}
    current = None
    for line in text.splitlines():
        if match := re.fullmatch(rf"# HELP ({NAME}) (.+)", line):
            if match[1] in helped:
                yield f"{match[1]} is explained twice"
            helped.add(match[1])
            current = match[1]
        elif match := re.fullmatch(rf"# TYPE ({NAME}) (counter|gauge|histogram)", line):
            if match[1] != current or match[1] in types:
                yield f"{line}: not right after its HELP"
            types[match[1]] = match[2]
            if match[2] == "counter" and not match[1].endswith("_total"):
                yield f"{match[1]} is a counter and does not end in _total"
        elif match := SAMPLE.fullmatch(line):
            name, labels, value = match.groups()
            kind = types.get(current)
            allowed = [current + end for end in ("_bucket", "_sum", "_count")] if kind == "histogram" else [current]
            if name not in allowed:
                yield f"{line}: not of {current}"
            if (name, labels) in seen:
                yield f"{line}: comes twice"
            seen.add((name, labels))
            if kind == "histogram":
                rest = re.sub(r',?le="[^"]*"', "", labels or "")
                histograms.setdefault((current, rest), []).append((name, labels, value))
        else:
            yield f"{line}: not of the format"
    for (family, labels), samples in histograms.items():
        counts = [float(value) for name, _, value in samples if name.endswith("_bucket")]
        last = [label for name, label, _ in samples if name.endswith("_bucket")][-1]
        total = [float(value) for name, _, value in samples if name.endswith("_count")]
        if counts != sorted(counts) or 'le="+Inf"' not in last or total != counts[-1:]:
            yield f"{family}{{{labels}}}: its buckets do not add up"


found = list(problems(open(sys.argv[1], encoding="utf-8").read()))
print("\n".join(found))
sys.exit(bool(found))
