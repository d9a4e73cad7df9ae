#!/usr/bin/env python3
# The captions of every drawn picture can be read: none leaves the picture, lies over another, or leaves the box that it
# begins in. Widths are those of DejaVu Sans, the widest of the fonts that "sans-serif" usually is, so that they hold for
# all: pictures.py FOLDER...
# SPDX-License-Identifier: Apache-2.0
import pathlib
import re
import sys
import xml.etree.ElementTree as xml

# Thousandths of the font's size: each width, then the characters that have it; every other takes that of a digit.
WIDTHS = {278: "'ijlIJ′·", 318: " ,.", 337: "/:;\\|", 375: "f-()[]", 401: "!tr", 521: "\"*_`sz?", 557: "cL", 592: "FkvxyPTY",
          615: "oae", 635: "hnuSbdgpq", 690: "KAVXZB", 715: "RCU", 760: "NHDG&", 787: "OQ", 838: "#+<=>^~w×≤≥", 960: "M%mW",
          1000: "@…→"}
WIDTH = {character: width for width, characters in WIDTHS.items() for character in characters}


def width(text, size, bold):
    return sum(WIDTH.get(c, 636) for c in text) * size / 1000 * (1.12 if bold else 1)


def number(value, default=0.0):
    return float(re.match(r"-?[\d.]+", value).group()) if value else default


class Picture:
    def __init__(self, path):
        root = xml.parse(path).getroot()
        self.view = [float(v) for v in root.get("viewBox").split()]
        self.rules = {}  # class name -> its declarations
        for style in root.iter("{http://www.w3.org/2000/svg}style"):
            for name, body in re.findall(r"\.([\w-]+)\s*{([^}]*)}", style.text or ""):
                self.rules[name] = dict(d.split(":", 1) for d in body.replace(" ", "").split(";") if ":" in d)
        self.texts, self.boxes = [], []
        self.walk(root, 0.0, 0.0, {})

    def walk(self, element, x, y, inherited):
        tag = element.tag.split("}")[-1]
        if tag in ("defs", "style", "clipPath", "marker", "pattern"):
            return
        transform = element.get("transform", "")
        if moved := re.fullmatch(r"translate\(\s*(-?[\d.]+)[ ,]*(-?[\d.]+)?\s*\)", transform):
            x, y = x + float(moved[1]), y + float(moved[2] or 0)
        elif transform:
            return  # turned: not for a program that looks at rows
        style = dict(inherited)
        style.update({k: element.get(k) for k in ("font-size", "font-weight", "text-anchor", "font-family") if element.get(k)})
        for name in element.get("class", "").split():
            style.update(self.rules.get(name, {}))
        left, top = x + number(element.get("x")), y + number(element.get("y"))
        if tag == "rect" and not element.get("width", "").endswith("%"):
            self.boxes.append((left, top, left + number(element.get("width")), top + number(element.get("height"))))
        if tag == "text":
            text = " ".join("".join(element.itertext()).split())
            size = number(style.get("font-size"), 16)
            wide = width(text, size, style.get("font-weight") == "bold")
            left -= {"middle": wide / 2, "end": wide}.get(style.get("text-anchor"), 0)
            self.texts.append((left, top - 0.72 * size, left + wide, top, text))
        for child in element:
            self.walk(child, x, y, style)

    def complaints(self):
        for left, top, right, bottom, text in self.texts:
            if left < self.view[0] or right > self.view[0] + self.view[2] or bottom > self.view[1] + self.view[3] or top < self.view[1]:
                yield f"'{text}' leaves the picture"
            for l, t, r, b in self.boxes:
                if l <= left < r and t <= (top + bottom) / 2 < b and right > r + 1 and r - l > 20:
                    yield f"'{text}' leaves its box"
        for i, a in enumerate(self.texts):
            for b in self.texts[i + 1:]:
                if a[0] < b[2] - 1 and b[0] < a[2] - 1 and a[1] < b[3] - 1 and b[1] < a[3] - 1:
                    yield f"'{a[4]}' and '{b[4]}' lie over each other"


paths = [path for folder in sys.argv[1:] for path in sorted(pathlib.Path(folder).rglob("*.svg"))]
wrong = 0
for path in paths:
    for complaint in Picture(path).complaints():
        print(f"{path}: {complaint}")
        wrong += 1
print(f"{len(paths)} pictures, {wrong} complaints")
sys.exit(0 if paths and not wrong else 1)
