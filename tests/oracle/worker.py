# worker.py - runs cases in a child process, so that a crash or a hang is a finding like any other and names its case.
# SPDX-License-Identifier: Apache-2.0
import json
import mmap
import os
import select
import signal
import time

import numpy as np

import binding as b
from case import Verdict, parse, run_case
from choose import choose
from memory import Memory

TEXT = 1 << 16  # bytes of shared memory for the case that is running


class Worker:
    """A child process with the library loaded. The parent never loads it: a forked thread runtime would not work."""

    _pipes = set()  # the parent's ends to all children: a child that kept another's would keep that one waiting for its end

    def __init__(self, library, backends=(), patience=60.0):
        self._library, self._backends = library, [os.path.abspath(backend) for backend in backends]
        self._patience = patience
        self._shared = mmap.mmap(-1, TEXT)
        self._pid = None

    # ------------------------------------------------------------ the parent's side

    def run(self, text):
        """One case's Verdict."""
        for _, verdict in self._answers({"case": text}):
            return verdict
        return Verdict("failed", "the child gave no answer")

    def run_many(self, seed, indices, kernel, edges):
        """Yields (index, Verdict, text) of range `indices`; the text is "" unless the verdict is a finding."""
        at = indices.start
        while at < indices.stop:
            request = {"seed": seed, "from": at, "to": indices.stop, "kernel": kernel, "edges": edges}
            for extra, verdict in self._answers(request):
                yield at, verdict, extra
                at += 1

    def _answers(self, request):
        if self._pid is None:
            self._start()
        try:
            self._to.write(json.dumps(request) + "\n")
            self._to.flush()
        except BrokenPipeError:
            pass  # it died after its last answer: reading tells
        expected = request.get("to", 1) - request.get("from", 0)
        while expected > 0:
            line = self._read()
            if line is None:
                yield self._shared[:TEXT].split(b"\0")[0].decode(), self._dead()
                return
            kind, sentence, kernel, text = json.loads(line)
            expected -= 1
            yield text, Verdict(kind, sentence, kernel)

    def _read(self):
        """A line; None where the child died or said nothing for too long."""
        deadline = time.monotonic() + self._patience
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([self._from], [], [], max(0.0, deadline - time.monotonic()))
            more = os.read(self._from, 1 << 16) if ready else b""
            if not more:
                return None
            self._buffer += more
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _dead(self):
        for _ in range(20):  # a crashed child is there already; else it hangs
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                break
            time.sleep(0.01)
        else:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            status = None
        self._forget()
        if status is None:
            return Verdict("hang", f"no answer for {self._patience:.0f} s")
        if os.WIFSIGNALED(status):
            return Verdict("crash", f"the process died of {signal.Signals(os.WTERMSIG(status)).name}")
        return Verdict("crash", f"the process ended with exit code {os.WEXITSTATUS(status)}")

    def _forget(self):
        self._hang_up()
        self._pid = None

    def _hang_up(self):
        Worker._pipes -= {self._to.fileno(), self._from}
        self._to.close()
        os.close(self._from)

    def close(self):
        if self._pid is not None:
            self._hang_up()
            os.waitpid(self._pid, 0)
            self._pid = None

    def _start(self):
        request_read, request_write = os.pipe()
        answer_read, answer_write = os.pipe()
        self._buffer = b""
        self._pid = os.fork()
        if self._pid == 0:
            code = 1
            try:
                for pipe in Worker._pipes | {request_write, answer_read}:
                    os.close(pipe)
                _serve(os.fdopen(request_read), os.fdopen(answer_write, "w"), self._library, self._backends,
                       self._shared)
                code = 0
            except BrokenPipeError:
                pass
            except BaseException:  # pylint: disable=broad-except
                import traceback
                traceback.print_exc()
            finally:
                os._exit(code)
        os.close(request_read)
        os.close(answer_write)
        self._to, self._from = os.fdopen(request_write, "w"), answer_read
        Worker._pipes |= {request_write, answer_read}
        said = self._read()
        if said != b"ready":
            raise SystemExit(f"oracle.py: the child did not start: {(said or b'it died').decode()}")


# ---------------------------------------------------------------- the child's side


def _serve(requests, answers, path, backends, shared):
    library, memory = b.Library(path), Memory()
    np.seterr(all="ignore")  # NaN and Inf are among what is compared
    try:
        for backend in backends:
            library.load(backend)
        answers.write("ready\n")
    except b.Failed as failed:
        answers.write(f"{failed}\n")
    answers.flush()

    def judge(case):
        text = case.text().encode()[:TEXT - 1]
        shared[:len(text) + 1] = text + b"\0"
        return run_case(library, memory, case)

    def answer(verdict, text):
        answers.write(json.dumps([verdict.kind, verdict.sentence, verdict.kernel, text]) + "\n")

    for line in requests:
        request = json.loads(line)
        if "case" in request:
            shared[:1] = b"\0"
            try:
                verdict = judge(parse(library, request["case"]))
            except b.Failed as failed:
                verdict = Verdict("refused", str(failed))
            answer(verdict, request["case"])
            answers.flush()
            continue
        for index in range(request["from"], request["to"]):
            said = f"index {index}".encode()  # should drawing or asking crash
            shared[:len(said) + 1] = said + b"\0"
            case = choose(library, request["seed"], index, request["kernel"], request["edges"])
            verdict = judge(case)
            answer(verdict, case.text() if verdict.finding else "")
            answers.flush()
