#!/usr/bin/env python3
# A report's page in a real browser: report_browser.py POLYCONV-BENCH FOLDER. At three widths, light and dark: no error
# on the console, nothing wider than the window, no label of a picture cut off, every text with the contrast of WCAG AA;
# sorting and filtering do what they say; 2,000 rows weigh at most 2 MB. Skipped (77) where there is no Chromium.
# SPDX-License-Identifier: Apache-2.0
import html
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys

WIDTHS = [(390, 844), (1280, 800), (2800, 1600)]
MOST_BYTES = 2_000_000

# Runs in the page after everything else; tells the wrapper what it found.
PROBE = r"""
addEventListener("load", () => setTimeout(() => {
  const found = { errors: window.probeErrors, clipped: [], faint: [], wide: document.documentElement.scrollWidth - innerWidth };
  const colour = (text) => { const p = text.match(/[\d.]+/g).map(Number); return { rgb: p.slice(0, 3), a: p.length > 3 ? p[3] : 1 }; };
  const light = (rgb) => { const [r, g, b] = rgb.map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const contrast = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
  const ground = (element) => { for (let e = element; e; e = e.parentElement) { const c = colour(getComputedStyle(e).backgroundColor); if (c.a === 1) return c.rgb; }
    return [255, 255, 255]; };
  const visible = (e) => e.getClientRects().length > 0;
  const look = (e, rgb, under) => { const ratio = contrast(rgb, under); if (ratio < 4.5) found.faint.push(`${ratio.toFixed(2)} ${e.textContent.trim().slice(0, 40)}`); };
  let labels = 0, texts = 0;
  for (const svg of document.querySelectorAll("svg")) {
    if (!visible(svg)) continue;
    const frame = svg.getBoundingClientRect();
    for (const text of svg.querySelectorAll("text")) {
      labels++;
      const box = text.getBoundingClientRect();
      if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1)
        found.clipped.push(`${text.textContent} ${Math.round(box.left - frame.left)}..${Math.round(box.right - frame.left)} of ${Math.round(frame.width)}`);
      const cell = text.classList.contains("in") ? text.previousElementSibling : null;
      look(text, colour(getComputedStyle(text).fill).rgb, cell ? colour(getComputedStyle(cell).fill).rgb : ground(svg));
    }
  }
  for (const e of document.querySelectorAll("h1,h2,p,li,a,span,code,button,label,th,td")) {
    if (!visible(e) || ![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
    if (texts++ < 3000) look(e, colour(getComputedStyle(e).color).rgb, ground(e));
  }
  found.labels = labels, found.texts = texts, found.dark = light(ground(document.body)) < 0.2;
  // The table: sorted by ratio upwards, filtered to those below 1.
  const shown = (name) => { const at = [...document.querySelectorAll("th")].findIndex((th) => th.textContent.startsWith(name));
    return [...document.querySelectorAll("tbody tr")].map((tr) => tr.cells[at].textContent); };
  [...document.querySelectorAll("th button")].find((b) => b.textContent.startsWith("ratio")).click();
  const ratios = shown("ratio").filter((v) => v !== "").map(Number);
  found.sorted = ratios.length > 10 && ratios.every((v, i) => i === 0 || ratios[i - 1] <= v);
  const filter = document.getElementById("filter");
  const ask = (text) => { filter.value = text; filter.dispatchEvent(new Event("input")); };
  ask("ratio<1 type=f16");
  found.filtered = shown("ratio").length > 0 && shown("ratio").every((v) => Number(v) < 1) && shown("type").every((v) => v === "f16");
  ask("");
  // Pointing at a mark tells its row, and a click goes there.
  const marks = [...document.querySelectorAll("svg [data-r]")].filter(visible);
  found.marks = marks.length;
  const mark = marks[marks.length - 1];
  mark.dispatchEvent(new PointerEvent("pointerover", { bubbles: true, clientX: 5, clientY: 5 }));
  found.tip = getComputedStyle(document.getElementById("tip")).display === "block" && document.getElementById("tip").textContent.includes(" on ");
  mark.dispatchEvent(new MouseEvent("click", { bubbles: true }));
  found.marked = document.querySelectorAll("tr.marked").length === 1;
  found.first = Math.round(document.querySelector("#first ol").getBoundingClientRect().top + scrollY);
  found.ms = Math.round(performance.timing.loadEventEnd - performance.timing.navigationStart);
  parent.postMessage(JSON.stringify(found), "*");
}, 100));
"""
WRAPPER = """<!DOCTYPE html><meta charset="utf-8"><body style="margin:0"><pre id="found"></pre>
<iframe src="page.html" style="border:0;width:%dpx;height:%dpx"></iframe>
<script>addEventListener("message", (e) => { document.getElementById("found").textContent = e.data; });</script>"""


def rows(count):
    draw = random.Random(7)
    devices = [("cpu", "AMD EPYC", 221, 51), ("cuda:0", "NVIDIA H200", 40000, 4000)]
    for i in range(count):
        device, model, peak, memory = devices[i % 2]
        k = i // 2
        kind = draw.choice(["f32", "f16"]) if k % 5 else "f32"
        swept = k < 72
        problem = (f"fwd:n1,c{2 ** (k % 6 + 3)},k{2 ** (k // 6 % 12 + 1)},i56x56,f3x3,p1" if swept else
                   f"fwd:n{k % 7 + 1},c{k % 97 + 1},k{k % 89 + 1},i{k}x31,f3x3,p1")
        kind = "f32" if swept else kind
        gflop, size = 10 ** draw.uniform(-3, 2), 10 ** draw.uniform(5, 9)
        roof = min(peak, memory * gflop * 1e9 / size)
        percent = draw.uniform(3, 110)
        us = gflop / (roof * percent / 100) * 1e6
        ratio = draw.lognormvariate(0.2, 0.5)
        row = {"problem": problem, "suite": "seeds" if swept else "resnet50", "count": k % 3 + 1, "type": kind, "device": device,
               "name": "" if swept else f"layer{k % 4}.{k}.conv<b>&\"größe</script>", "kernel": draw.choice(["threads/dense@avx512", "x/pointwise@a", "x/few@b"]),
               "requested": "", "requested_math": "strict", "math": "strict", "threads": 1 if device == "cpu" else None, "cache": "warm",
               "status": "good", "reason": "", "fallback": k % 50 == 0, "median_us": us, "median_low_us": us * 0.97, "median_high_us": us * 1.03,
               "p95_us": us * 1.1, "gflop": gflop, "bytes": size, "roofline_pct": percent, "baseline": "onednn" if device == "cpu" else "cudnn",
               "baseline_kernel": "b/c", "baseline_us": us * ratio, "ratio": ratio, "rel_l2_err": 10 ** draw.uniform(-8, -5), "bound_pct": 10 ** draw.uniform(-1, 1.9),
               "check": "good", "library_version": "0.1.0", "device_name": model, "driver": "d", "date": "2026-11-28T09:00:00Z", "format": 1}
        if k % 200 == 150:
            row.update(status="wrong", reason="element [0] is </script><script>alert(1)</script>", median_us=None, ratio=None)
        yield row
    yield {"problem": "resnet50@1:nchw:f32", "suite": "resnet50", "name": "2 layers", "type": "f32", "device": "cpu", "status": "good", "median_us": 30.0,
           "kernel": "1x a/b, 2x c/d", "device_name": "AMD EPYC", "layers": [{"name": "conv1", "problem": "p", "count": 1, "kernel": "a/b@c", "math": "strict", "fallback": False}],
           "profile": [{"kind": "layer", "name": "1x conv1: threads/dense@avx512", "host_us": 10.0, "device_us": None, "bytes": None},
                       {"kind": "layer", "name": "12x conv2 of a very long name that has no place beside its bar: x/few@b", "host_us": 20.0, "device_us": None, "bytes": None}]}


def write(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def main():
    bench, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    browser = next((b for b in map(shutil.which, ["chromium", "chromium-browser", "google-chrome"]) if b), None)
    if not browser:
        print("skipped: no chromium or google-chrome")
        return 77
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    new, old = folder / "new.jsonl", folder / "old.jsonl"
    all_rows = list(rows(2000))
    write(new, all_rows)
    write(old, [dict(row, median_us=row["median_us"] * 1.04 if row["median_us"] else None) for row in all_rows[:300]])
    page = folder / "report.html"
    subprocess.run([bench, "report", new, "--against", old, "-o", page, "--pictures", folder / "pictures"], check=True)
    text = page.read_text(encoding="utf-8")
    wrong = []
    if len(text.encode()) > MOST_BYTES:
        wrong.append(f"the page of {len(all_rows)} rows weighs {len(text.encode())} bytes, more than {MOST_BYTES}")
    outside = re.findall(r"""(?:src|href)=["'](?!#|data:)[^"']*|url\([^)]*|https?://[^"'< ]*""", text)
    if outside:
        wrong.append(f"the page needs what is not in it: {outside[:3]}")
    names = sorted(p.name for p in (folder / "pictures").iterdir())
    for stem in ["difference", "speedup", "speedup-2", "roofline", "layers-1", "devices-1", "heat-1", "error"]:
        if stem + ".svg" not in names:
            wrong.append(f"no picture {stem}.svg")
    probe = "<script>window.probeErrors=[];addEventListener('error',(e)=>probeErrors.push(e.message));" \
            "console.error=(...a)=>probeErrors.push(a.join(' '));</script>"
    (folder / "page.html").write_text(text.replace("<head>", "<head>" + probe, 1).replace("</body>", f"<script>{PROBE}</script></body>"), encoding="utf-8")
    for width, height in WIDTHS:
        for scheme in ["light", "dark"]:
            (folder / "wrapper.html").write_text(WRAPPER % (width, height))
            home = folder / "browser"
            done = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={home}", f"--window-size={width + 100},{height + 100}",
                                   f"--blink-settings=preferredColorScheme={0 if scheme == 'dark' else 1}", "--virtual-time-budget=20000", "--dump-dom",
                                   (folder / "wrapper.html").resolve().as_uri()], capture_output=True, text=True, timeout=200,
                                  env=dict(os.environ, HOME=str(folder), XDG_CACHE_HOME=str(home), XDG_CONFIG_HOME=str(home)))
            answer = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.S)
            if not answer or not answer.group(1):
                wrong.append(f"{width} {scheme}: the page never answered: {done.stderr[-300:]}")
                continue
            found = json.loads(html.unescape(answer.group(1)))
            print(width, scheme, {k: v if not isinstance(v, list) else len(v) for k, v in found.items()})
            for key in ["errors", "clipped", "faint"]:
                if found[key]:
                    wrong.append(f"{width} {scheme}: {key}: {found[key][:5]}")
            if found["dark"] != (scheme == "dark"):
                wrong.append(f"{width} {scheme}: the page is not {scheme}")
            if found["wide"] > 0:
                wrong.append(f"{width} {scheme}: {found['wide']} pixels wider than the window")
            for key in ["sorted", "filtered", "tip", "marked"]:
                if found[key] is not True:
                    wrong.append(f"{width} {scheme}: not {key}")
            if found["labels"] < 100 or found["marks"] < 1000:
                wrong.append(f"{width} {scheme}: too little was drawn")
            if found["first"] > height:
                wrong.append(f"{width} {scheme}: the layers to look at first begin at {found['first']}, below the first screen")
    print("\n".join(wrong) if wrong else f"{len(text.encode())} bytes, nothing wrong")
    return 1 if wrong else 0


sys.exit(main())
