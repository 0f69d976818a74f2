"""Reads call stacks and the weight of each from the output of `perf script` or callgrind. This module knows neither the
load nor the drawing.

A stack is a tuple of frames, outermost first; a frame is (name, module)."""

import collections
import re
import subprocess

# The frames with which every stack of the server begins: the start of the thread, Dispatch, and the runtime of Swift's
# tasks. They carry no information and are removed.
PLUMBING = re.compile(
    r"^(start_thread|clone3?|__clone|__GI___clone|_dispatch_|dispatch_|thunk for |partial apply for thunk|swift_job_run|"
    r"swift::runJob|UnownedJob\.|completeTask|(partial apply for )?closure #\d+ in EventLoop\.|"
    r"EventLoop\.(runBatch|onThisThread|runRunnable))")


class Names:
    """Readable names of symbols. One run of `swift demangle` translates all symbols."""

    def __init__(self, symbols):
        symbols = list(dict.fromkeys(symbols))
        mangled = [symbol for symbol in symbols if symbol.startswith(("$s", "_$s"))]
        readable = symbols_of("--simplified", mangled)
        self.readable = dict(zip(mangled, readable))

    def frame(self, symbol, image):
        name = self.readable.get(symbol, symbol)
        # A Swift symbol usually begins with its module: $s6Engine6IngestV... belongs to Engine. The symbols of
        # specialized generic code of the standard library do not begin with a module. They get the module "swift".
        module = re.match(r"_?\$s(\d+)(\D\w*)", symbol)
        if module:
            return (name, module[2][: int(module[1])])
        if symbol.startswith(("$s", "_$s")) or "libswift" in image or symbol.startswith("swift_"):
            return (name, "swift")
        return (name, image)


def symbols_of(option, mangled):
    if not mangled:
        return []
    answer = subprocess.run(
        ["swift", "demangle", "--compact", option], input="\n".join(mangled) + "\n", text=True, capture_output=True,
        check=True)
    return answer.stdout.splitlines()


def image_name(path):
    name = path.rsplit("/", 1)[-1]
    if name.startswith("[") or not name:
        return "kernel"
    return re.sub(r"\.so.*", "", name)


def from_perf(lines):
    """Returns the weight of each stack in the output of `perf script -F comm,tid,ip,sym,dso`. In this output, an empty
    line ends each sample, and the innermost frame of a sample is first."""
    raw = []
    stack = []
    for line in lines:
        line = line.rstrip()
        frame = re.match(r"\s+[0-9a-f]+ (.*) \(([^()]*(?:\([^()]*\))?[^()]*)\)$", line)
        if frame:
            stack.append((frame[1].strip(), frame[2]))
        elif stack:
            raw.append(stack[::-1])
            stack = []
    if stack:
        raw.append(stack[::-1])
    names = Names(symbol for stack in raw for symbol, _ in stack)
    weights = collections.Counter()
    for stack in raw:
        # If an address is in no file, unwinding went wrong there. Leave out the frame of this address.
        frames = [names.frame(symbol, image_name(image)) for symbol, image in stack if image != "[unknown]"]
        # A frame without a name is in a library without symbols, and gets the library's name. Merge adjacent equal
        # frames.
        frames = [frame if frame[0] != "[unknown]" else (f"[{frame[1]}]", frame[1]) for frame in frames]
        frames = [frame for index, frame in enumerate(frames) if index == 0 or frame != frames[index - 1]]
        if frames:
            weights[without_plumbing(frames)] += 1
    return weights


def without_plumbing(frames):
    start = 0
    while start < len(frames) - 1 and PLUMBING.match(frames[start][0]):
        start += 1
    return tuple(frames[start:])


def from_callgrind(lines):
    """Returns the weight of each stack, computed from callgrind.out. That file has the cost of each function itself and
    of each call from one function to another, but no stacks. The cost of a callee is therefore divided among its
    callers in proportion to the cost of their calls."""
    own, calls, names, file_names = read_callgrind(lines)
    readable = Names(name.split("'")[0] for name in names.values())
    caused = collections.Counter()
    for callees in calls.values():
        for callee, cost in callees.items():
            caused[callee] += cost
    inclusive = {name: own[name] + sum(calls[name].values()) for name in set(own) | set(calls)}
    weights = collections.Counter()

    def walk(name, share, path):
        frame = readable.frame(names[name].split("'")[0], image_name(file_names.get(name, "")))
        stack = path + (frame,)
        if own[name] * share >= smallest:
            weights[stack] += round(own[name] * share)
        for callee, cost in calls[name].items():
            # Do not follow a call that is too cheap to be drawn, and limit the depth, because calls can be recursive.
            if cost * share < smallest or len(stack) > 60:
                continue
            if inclusive.get(callee):
                walk(callee, share * cost / inclusive[callee], stack)

    total = sum(own.values())
    smallest = max(1, total / 20000)
    for name in inclusive:
        uncalled = inclusive[name] - caused[name]
        if uncalled > smallest and inclusive[name]:
            walk(name, uncalled / inclusive[name], ())
    return collections.Counter({without_plumbing(list(stack)): weight for stack, weight in weights.items()})


def read_callgrind(lines):
    own = collections.Counter()
    calls = collections.defaultdict(collections.Counter)
    names, objects, file_names = {}, {}, {}
    current = callee = None
    current_object = callee_object = ""
    inside_call = False

    def compressed(text, table):
        match = re.match(r"\((\d+)\)(?: (.*))?$", text)
        if not match:
            table[text] = text
            return text
        if match[2] is not None:
            table[match[1]] = match[2]
        return match[1]

    for line in lines:
        line = line.rstrip("\n")
        key, equals, value = line.partition("=")
        if equals and key in ("fn", "cfn", "ob", "cob"):
            if key == "fn":
                current = compressed(value, names)
                file_names[current] = current_object
            elif key == "cfn":
                callee = compressed(value, names)
                file_names.setdefault(callee, callee_object or current_object)
            else:
                image = objects.get(compressed(value, objects), "")
                if key == "ob":
                    current_object = image
                callee_object = image
        elif key == "calls":
            inside_call = True
        elif re.match(r"[+\-*\d]\S* \d+", line) and current is not None:
            cost = int(line.split()[1])
            if inside_call:
                if callee != current:
                    calls[current][callee] += cost
                inside_call = False
                callee_object = ""
            else:
                own[current] += cost
    return own, calls, names, file_names


def self_weights(weights):
    totals = collections.Counter()
    for stack, weight in weights.items():
        totals[stack[-1]] += weight
    return totals


def inclusive_weights(weights):
    """Returns the total weight of the stacks that contain each function. A function that recurses counts once per
    stack."""
    totals = collections.Counter()
    for stack, weight in weights.items():
        for frame in set(stack):
            totals[frame] += weight
    return totals


def blamed_weights(weights, modules):
    """Returns the weight of each function of `modules`. A stack's weight is added to its innermost frame that is in
    `modules`. A function's weight therefore includes its callees outside of `modules`."""
    totals = collections.Counter()
    for stack, weight in weights.items():
        blamed = next((frame for frame in reversed(stack) if frame[1] in modules), None)
        totals[blamed or (f"[no frame of ours] {stack[-1][0]}", stack[-1][1])] += weight
    return totals
