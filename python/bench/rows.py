"""What whole_models.py found: a row for each model, kind and batch, told as a table in Markdown and as JSON."""
# SPDX-License-Identifier: Apache-2.0

import json
import math
from typing import NamedTuple


class Row(NamedTuple):
    model: str
    kind: str
    batch: int
    theirs_ms: float
    ours_ms: float
    theirs_mb: float
    ours_mb: float
    differs: float  # from strict f32
    left: int  # calls that went to PyTorch

    ratio = property(lambda self: self.theirs_ms / self.ours_ms)


class Found:
    """The rows so far, what both sides ran with, what failed and what was not run. `path` is a file that has all of it as soon as
    it is there, as a later row may end the process; None: no file."""

    def __init__(self, title, path=None):
        self.title, self.path = title, path
        self.settings, self.rows, self.failed = {}, [], []
        self.left_out = 0
        self.running = None  # (model, kind, batch) while a row is measured

    def save(self):
        if self.path:
            told = {
                "title": self.title,
                "settings": self.settings,
                "rows": [{**row._asdict(), "ratio": row.ratio} for row in self.rows],
                "failed": self.failed,
                "not_run": self.left_out,
                "running": self.running,
            }
            with open(self.path, "w", encoding="utf-8") as file:
                json.dump(told, file, indent=1)
                file.write("\n")

    def begin(self, model, kind, batch):
        self.running = (model, kind, batch)
        self.save()

    def add(self, row):
        self.rows.append(row)
        self.running = None
        self.save()

    def fail(self, lines):
        """Lines about the row that is running, or about a process."""
        self.failed.append(lines)
        self.running = None
        self.save()

    def take(self, path):
        """Adds what another process wrote, and gives back the row that it was at when it ended; None where it was at none."""
        with open(path, encoding="utf-8") as file:
            told = json.load(file)
        self.title = told["title"]
        self.settings.update(told["settings"])
        self.rows += [Row(**{key: value for key, value in row.items() if key != "ratio"}) for row in told["rows"]]
        self.failed += told["failed"]
        self.left_out += told["not_run"]
        self.save()
        return told["running"]

    def table(self):
        """The rows in Markdown, and what they come to."""
        lines = [
            self.title,
            "",
            "| model | what | batch | PyTorch, ms | polyconv, ms | ratio | PyTorch, MB | polyconv, MB | differs by | left to PyTorch |",
            "| --- | --- | --: | --: | --: | --: | --: | --: | --: | --: |",
        ]
        for row in self.rows:
            memory = f"{row.theirs_mb:.0f} | {row.ours_mb:.0f}" if row.theirs_mb else " | "
            lines.append(
                f"| {row.model} | {row.kind} | {row.batch} | {row.theirs_ms:.3f} | {row.ours_ms:.3f} | {row.ratio:.3f} | {memory} | "
                f"{row.differs:.0e} | {row.left} |"
            )
        for name, some in (
            ("enable()", [row for row in self.rows if not row.kind.startswith("fused")]),
            ("fuse()", [row for row in self.rows if row.kind.startswith("fused")]),
        ):
            if some:
                mean = math.exp(sum(math.log(row.ratio) for row in some) / len(some))
                more = sum(row.ours_mb > row.theirs_mb for row in some)
                lines.append("")
                lines.append(
                    f"{name}: {len(some)} rows, geometric mean {mean:.3f}, least {min(row.ratio for row in some):.3f}, "
                    f"{sum(row.ratio < 0.97 for row in some)} below 0.97, {more} with a higher peak of memory"
                )
        if self.left_out:
            lines += ["", f"{self.left_out} rows not run: the time was over"]
        return "\n".join(lines)
