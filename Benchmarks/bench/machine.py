"""What the numbers were measured on. Nothing here identifies whose machine it is."""

import os
import pathlib
import platform
import statistics
import time


def describe(folder):
    return {
        "cpu": cpu(), "cores": os.cpu_count(), "memory_gib": round(memory_bytes() / 2**30),
        "kernel": f"{platform.system()} {platform.release()}", "filesystem": filesystem(folder),
        "flush_us": flush_microseconds(folder),
    }


def cpu():
    for line in read("/proc/cpuinfo").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def memory_bytes():
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def filesystem(folder):
    best = ("", "unknown")
    for line in read("/proc/mounts").splitlines():
        _, place, kind, *_ = line.split()
        if str(folder).startswith(place) and len(place) >= len(best[0]):
            best = (place, kind)
    return best[1]


def flush_microseconds(folder, count=300):
    """The median of appending one page to a file and flushing it: what a commit cannot be quicker than."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "flush"
    took = []
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        # As SQLite's WAL between checkpoints: pages that the file has already.
        os.write(descriptor, bytes(4096 * count))
        os.fsync(descriptor)
        for place in range(count):
            begun = time.perf_counter_ns()
            os.pwrite(descriptor, bytes(4096), 4096 * place)
            os.fdatasync(descriptor)
            took.append((time.perf_counter_ns() - begun) / 1000)
    finally:
        os.close(descriptor)
        path.unlink()
    return round(statistics.median(took), 1)


def paced_flushes(folder, seconds, size=24 * 1024, pause=0.001):
    """Writes and flushes, nothing else, as large and as many a second as a group of events makes them: what of a slow
    answer is the disk's."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "flush"
    took = []
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        places = 1024
        os.write(descriptor, bytes(size * places))
        os.fsync(descriptor)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(pause)
            begun = time.perf_counter_ns()
            os.pwrite(descriptor, bytes(size), size * (len(took) % places))
            os.fdatasync(descriptor)
            took.append((time.perf_counter_ns() - begun) / 1000)
    finally:
        os.close(descriptor)
        path.unlink()
    took.sort()
    return {"rate": len(took) / seconds, "p50_us": took[len(took) // 2], "p99_us": took[len(took) * 99 // 100]}


def busy():
    """How many processors others keep busy, over half a second."""
    def counted():
        fields = [int(field) for field in read("/proc/stat").splitlines()[0].split()[1:]]
        return sum(fields) - fields[3] - fields[4], sum(fields)

    before = counted()
    time.sleep(0.5)
    after = counted()
    return round((after[0] - before[0]) / max(1, after[1] - before[1]) * (os.cpu_count() or 1), 2)


def read(path):
    try:
        return pathlib.Path(path).read_text()
    except OSError:
        return ""
