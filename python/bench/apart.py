"""whole_models.py with each model in a process of its own, so that one that crashes loses a row and not the rest: no later call of a
process survives an illegal memory access.

The next process is started as soon as one measures, so that nobody waits for its imports; the lock of a file says whose turn it is."""
# SPDX-License-Identifier: Apache-2.0

import collections
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

_PROGRAM = pathlib.Path(__file__).with_name("whole_models.py")
_PATIENCE = 60  # seconds beyond its time after which a process is ended
_LAST_WORDS = 5  # seconds for it to say where it is
_LOOK = 0.2  # seconds between looks at how far it is


@contextlib.contextmanager
def turn(text, ready):
    """In a child: calls ready(), waits for its turn, and gives the seconds that it may begin rows in. `text` is what Child made."""
    import fcntl  # not on Windows, where --apart is not either

    path, end, shares = text.rsplit(",", 2)
    ready()
    with open(path, "a", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write("taken\n")
        file.flush()
        yield (float(end) - time.monotonic()) / int(shares)


class Child:
    """A process that measures some kinds of one model when it is its turn. It gets one of `shares` shares of the time until `end`."""

    def __init__(self, model, kinds, arguments, folder, end, shares):
        self.model, self.kinds, self.end = model, kinds, end
        self.turnstile, self.rows = folder / "turnstile", folder / f"{model}_{'_'.join(kinds)}.json"
        own = ["--models", model, "--kinds", ",".join(kinds), "--json", str(self.rows), "--turn", f"{self.turnstile},{end},{shares}"]
        self.taken = self._turns() + 1
        environment = {**os.environ, "PYTHONFAULTHANDLER": "1"}  # one that is ended says where it is
        self.process = subprocess.Popen([sys.executable, str(_PROGRAM), *arguments, *own], env=environment)

    def _turns(self):
        return self.turnstile.stat().st_size // len("taken\n") if self.turnstile.exists() else 0

    def begins(self):
        """Waits until it measures, or has ended."""
        while self._turns() < self.taken and self.process.poll() is None:
            time.sleep(0.05)

    def ends(self, limit):
        """Waits, for each row at most so many seconds, and says how it ended; None where all was well."""
        patience = time.monotonic() + max(self.end - time.monotonic(), 0) + _PATIENCE
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = self.process.wait(_LOOK)
                break
            if self._since_row() > limit:
                return self._stop(f"did not end within {limit:g} s and was ended; where it was is above")
            if time.monotonic() > patience:
                return self._stop("took too long for the time of all rows and was ended; where it was is above")
        if code in (0, 1):  # 1: a row failed, and is told
            return None
        return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"

    def _since_row(self):
        """Seconds since a row began, or all were done: then the file of rows is written."""
        return time.time() - self.rows.stat().st_mtime if self.rows.exists() else 0.0

    def _stop(self, how):
        self.process.send_signal(signal.SIGABRT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_LAST_WORDS)
        self.process.kill()
        self.process.wait()
        return how


def without(arguments, names):
    """Arguments without some options and their values, `--name value` or `--name=value`."""
    result, skip = [], False
    for one in arguments:
        if not skip and one.split("=", 1)[0] not in names:
            result.append(one)
        skip = not skip and one in names
    return result


def run(models, kinds, seconds, limit, arguments, found):
    """Measures all of it into `found`; `arguments` are those of this process. A row that does not end within `limit` seconds says so
    and where it is, and the rest goes on."""
    end = time.monotonic() + seconds
    shared = without([one for one in arguments if one != "--apart"], ("--models", "--kinds", "--json", "--table", "--seconds", "--limit"))
    waiting = collections.deque((model, list(kinds)) for model in models)
    with tempfile.TemporaryDirectory() as name:

        def start():
            model, some = waiting.popleft()
            return Child(model, some, shared, pathlib.Path(name), end, len(waiting) + 1)

        child = start()
        while child is not None:
            child.begins()
            following = start() if waiting else None
            how = child.ends(limit)
            at = found.take(child.rows) if child.rows.exists() else None
            if how is not None:
                found.fail([f"{at[0]} {at[1]} batch {at[2]} {how}" if at else f"{child.model}: its process {how}"])
                print("FAIL  " + found.failed[-1][0], flush=True)
                done = {row.kind for row in found.rows if row.model == child.model}
                rest = [kind for kind in child.kinds if at and kind != at[1] and kind not in done]
                if rest:
                    waiting.append((child.model, rest))
            child = following or (start() if waiting else None)
