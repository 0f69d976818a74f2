"""Describes the machine on which the figures were measured. The description does not identify the machine's owner."""

import itertools
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
    """Returns the median microseconds of writing one page to a file and flushing it. No commit can be faster."""
    return round(statistics.median(itertools.islice(flushes(folder, 4096, count), count)), 1)


def paced_flushes(folder, seconds, size=24 * 1024, pause=0.001):
    """Writes to a file and flushes, again and again. A write has as many bytes as a commit of several events. The
    percentiles of the times show how much of a slow response the disk causes."""
    took = []
    end = time.monotonic() + seconds
    for microseconds in flushes(folder, size, 1024):
        took.append(microseconds)
        if time.monotonic() >= end:
            break
        time.sleep(pause)
    took.sort()
    return {"p50_us": took[len(took) // 2], "p99_us": took[len(took) * 99 // 100]}


def flushes(folder, size, places):
    """Writes `size` bytes to a file and flushes them, again and again. Yields the microseconds of each write with its
    flush. The file has room for `places` writes, and is then overwritten from the beginning."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "flush"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        # Give the file its full size first, so that no measured write extends it. SQLite does not extend the WAL
        # after a checkpoint either, because it overwrites the WAL from the beginning.
        os.write(descriptor, bytes(size * places))
        os.fsync(descriptor)
        for place in itertools.cycle(range(places)):
            begun = time.perf_counter_ns()
            os.pwrite(descriptor, bytes(size), size * place)
            os.fdatasync(descriptor)
            yield (time.perf_counter_ns() - begun) / 1000
    finally:
        os.close(descriptor)
        path.unlink()


def busy():
    """Returns the average number of busy processors during half a second. Call it before a measurement begins."""
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
