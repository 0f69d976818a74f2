"""Reads call stacks and their weights from the output of `perf script` or callgrind.

A stack is a tuple of frames, outermost first. A frame is (name, module)."""

import collections
import re
import subprocess

# Every stack of the server begins with such frames of the thread, of Dispatch and of Swift's tasks. They are removed.
PLUMBING = re.compile(
    r"^(start_thread|clone3?|__clone|__GI___clone|_dispatch_|dispatch_|thunk for |partial apply for thunk|swift_job_run|"
    r"swift::runJob|UnownedJob\.|completeTask|(partial apply for )?closure #\d+ in EventLoop\.|"
    r"EventLoop\.(runBatch|onThisThread|runRunnable))")


class Names:
    """Readable names of symbols, translated by one run of `swift demangle`."""

    def __init__(self, symbols):
        symbols = list(dict.fromkeys(symbols))
        mangled = [symbol for symbol in symbols if symbol.startswith(("$s", "_$s"))]
        readable = symbols_of("--simplified", mangled)
        self.readable = dict(zip(mangled, readable))

    def frame(self, symbol, image):
        name = self.readable.get(symbol, symbol)
        # A Swift symbol usually begins with its module: $s6Engine6IngestV... belongs to Engine. Specialized generics of
        # the standard library have no module there, and get the module "swift".
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
    """Returns the weight of each stack in the output of `perf script -F comm,tid,ip,sym,dso`. There, an empty line ends
    a sample, and a sample begins with the innermost frame."""
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
        # Leave out a frame whose address is in no file, because unwinding went wrong there.
        frames = [names.frame(symbol, image_name(image)) for symbol, image in stack if image != "[unknown]"]
        # In a library without symbols, a frame has no name. It gets the library's name. Merge adjacent equal frames.
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
    """Returns the weight of each stack. callgrind.out has no stacks. It has only the cost of each function itself, and
    of each call between two functions. A callee's cost is divided among its callers in proportion to the cost of their
    calls."""
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
            # Skip a call that is too cheap to be drawn. Limit the depth, because calls can be recursive.
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
    """Returns for each function the weight of all stacks that contain it. A recursive function counts once a stack."""
    totals = collections.Counter()
    for stack, weight in weights.items():
        for frame in set(stack):
            totals[frame] += weight
    return totals


def blamed_weights(weights, modules):
    """Returns the weight of each function of `modules`, including its callees in other modules. The weight of a stack
    counts for the innermost frame that is in `modules`."""
    totals = collections.Counter()
    for stack, weight in weights.items():
        blamed = next((frame for frame in reversed(stack) if frame[1] in modules), None)
        totals[blamed or (f"[no frame of ours] {stack[-1][0]}", stack[-1][1])] += weight
    return totals
