"""Reports results as TAP, with measurements as comments. This module is independent of what is tested."""

import sys
import traceback


class Report:
    """A writer of TAP: checks as lines, and figures as comments."""

    def __init__(self, name):
        self.name = name
        self.count = 0
        self.failures = 0

    def check(self, holds, what, *evidence):
        """Reports one check. If it fails, prints at most twenty lines of `evidence`."""
        self.count += 1
        print(f"{'ok' if holds else 'not ok'} {self.count} {self.name}: {what}")
        if not holds:
            self.failures += 1
            lines = [line for item in evidence for line in str(item).splitlines()]
            for line in lines[:20]:
                print(f"#   {line}")
            if len(lines) > 20:
                print(f"#   ... and {len(lines) - 20} lines more")
        sys.stdout.flush()
        return holds

    def run(self, what, body):
        """Runs a function as one check. The check holds if the function returns."""
        try:
            body()
        except Exception as error:
            at = traceback.extract_tb(error.__traceback__)[1:]
            where = " < ".join(f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno}" for frame in reversed(at))
            return self.check(False, what, f"{type(error).__name__}: {error}", where)
        return self.check(True, what)

    def note(self, text):
        print(f"# {self.name}: {text}", flush=True)

    def exit(self):
        print(f"1..{self.count}", flush=True)
        sys.exit(1 if self.failures else 0)
