"""`make profile`: puts a load on the server and draws a flame graph. The weights are samples of perf, or instructions
that callgrind counts."""

import pathlib
import shutil
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))

import flamegraph
import loads
import stacks
from contestants import ALL, ROOT, Dwell, Failed, run

OUT = ROOT / ".build" / "profile"


class UnderCallgrind(Dwell):
    """The server under callgrind. Its memory and processor time include those of valgrind."""

    def build(self):
        # Remove the debugging information, because valgrind may be too old to read it. The symbols remain.
        super().build()
        run(["objcopy", "--strip-debug", Dwell.binary, OUT / "dwell"])
        self.binary = OUT / "dwell"

    def command(self, folder, port):
        return [
            "valgrind", "--tool=callgrind", f"--callgrind-out-file={OUT}/callgrind.out", "--instr-atstart=no",
            "--separate-threads=no", *super().command(folder, port)]


def perf_works():
    if not shutil.which("perf"):
        return False
    trial = subprocess.run(
        ["perf", "record", "-e", "cpu-clock", "-o", OUT / "trial", "--", "true"], capture_output=True)
    return trial.returncode == 0


def with_perf(bench, load, seconds):
    """Returns the weights of the stacks that perf sampled under the load, and their unit.

    perf unwinds the stacks with DWARF, because the C libraries have no frame pointers. With frame pointers, the
    callers of SQLite and malloc would be missing."""
    with Dwell().start(bench.fresh_folder("profile"), bench.token) as running:
        sampling = subprocess.Popen(
            ["perf", "record", "-e", "cpu-clock", "-F", "499", "--call-graph", "dwarf,16384", "-o", OUT / "perf.data",
             "-p", ",".join(map(str, running.processes())), "--", "sleep", str(1 + seconds)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        bench.put_load(running, load)
        sampling.wait()
        running.stop()
    script = subprocess.run(
        ["perf", "script", "-i", OUT / "perf.data", "--no-inline", "-F", "comm,tid,ip,sym,dso"], capture_output=True, text=True,
        errors="replace")
    return stacks.from_perf(script.stdout.splitlines()), "samples of 2 ms"


def with_callgrind(bench, load, seconds):
    server = UnderCallgrind()
    server.build()
    with server.start(bench.fresh_folder("profile"), bench.token) as running:
        pid = running.process.pid
        run(["callgrind_control", "-i", "on", pid])
        bench.put_load(running, load)
        run(["callgrind_control", "-i", "off", pid])
        running.stop()
    with open(OUT / "callgrind.out", errors="replace") as lines:
        return stacks.from_callgrind(lines), "instructions"


def top_lists(weights, unit, ours):
    total = sum(weights.values()) or 1
    yield f"{total:,} {unit}"
    modules = {}
    for (_, module), weight in stacks.blamed_weights(weights, ours).items():
        modules[(module, "")] = modules.get((module, ""), 0) + weight
    for title, counted, count in (
            ("By module: the innermost frame of Dwell's, with all that it calls outside", modules, 20),
            ("The innermost function of Dwell's, with all that it calls outside", stacks.blamed_weights(weights, ours), 60),
            ("Functions by themselves", stacks.self_weights(weights), 60),
            ("Functions with what they call", stacks.inclusive_weights(weights), 80)):
        yield f"\n{title}\n"
        for (name, module), weight in sorted(counted.items(), key=lambda item: -item[1])[:count]:
            yield f"{100 * weight / total:6.2f} %  {name or module:16}" + (f"  {module}" if name and module else "")


def main():
    load, seconds, profiler = sys.argv[1], float(sys.argv[2]), sys.argv[3]
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "callgrind.out").unlink(missing_ok=True)
    try:
        Dwell().build()
        bench = loads.Bench(loads.Options(
            seconds=seconds, rounds=1, connections=64, table_rows=0, memory_events=0, data=OUT / "data"))
        uses_perf = profiler == "perf" or (profiler == "any" and perf_works())
        begun = time.monotonic()
        weights, unit = (with_perf if uses_perf else with_callgrind)(bench, load, seconds)
    except Failed as failure:
        print(f"profile: {failure}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(OUT / "data", ignore_errors=True)
        (OUT / "trial").unlink(missing_ok=True)
    ours = {path.name for path in (ROOT / "Sources").iterdir()}
    title = f"Dwell under {load}, 64 connections, {'perf' if uses_perf else 'callgrind'}: {sum(weights.values()):,} {unit}"
    (OUT / f"{load}.svg").write_text(flamegraph.draw(weights, title, ours))
    (OUT / f"{load}.txt").write_text("\n".join(top_lists(weights, unit, ours)) + "\n")
    print("\n".join((OUT / f"{load}.txt").read_text().splitlines()[:48]))
    print(f"\nafter {time.monotonic() - begun:.0f} s: .build/profile/{load}.svg, .build/profile/{load}.txt")
    return 0


if __name__ == "__main__":
    sys.exit(main())
