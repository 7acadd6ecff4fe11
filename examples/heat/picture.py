# SPDX-FileCopyrightText: The Cabane developers
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Draws a field and its error side by side as a PNG.

Everything is drawn at twice the size and reduced at the end, which smooths
lines, contours and letters alike.
"""

import numpy as np
from PIL import Image, ImageDraw, ImageFont

SCALE = 2
PANEL = 520
LEFT, TOP, GAP, RIGHT, BOTTOM = 64, 64, 190, 130, 64
BAR_GAP, BAR_WIDTH = 20, 22
INK, QUIET, PAPER = (33, 37, 41), (134, 142, 150), (255, 255, 255)

# Colours at equal distances; what lies between is interpolated.
HEAT = ["#0b0620", "#2a0a5e", "#57106e", "#85216b", "#b1325a", "#d84c3e", "#f1731d", "#fca50a",
        "#f6d746", "#fcffd0"]
DIVERGING = ["#123b78", "#2f79b5", "#7db8da", "#d3e6f1", "#f9f9f9", "#fbdccb", "#ee9e7e", "#c94741",
             "#7a0f24"]


def colours(values, anchors):
    """Maps values from 0 to 1 to colours."""
    table = np.array([[int(a[i:i + 2], 16) for i in (1, 3, 5)] for a in anchors], float)
    place = np.linspace(0, 1, len(anchors))
    channels = [np.interp(values, place, table[:, c]) for c in range(3)]
    return np.stack(channels, axis=-1).round().astype(np.uint8)


def enlarged(field, side):
    """The field on `side` x `side` pixels, with y upwards."""
    image = Image.fromarray(field[::-1].astype(np.float32))
    return np.asarray(image.resize((side, side), Image.Resampling.BICUBIC), float)


def contours(values, levels):
    """True where a contour passes, one pixel wide at the size of the drawing."""
    band = np.searchsorted(levels, values)
    edge = np.zeros(values.shape, bool)
    edge[:-1] |= band[:-1] != band[1:]
    edge[:, :-1] |= band[:, :-1] != band[:, 1:]
    wider = edge.copy()
    wider[1:] |= edge[:-1]
    return wider


def nice_step(span, parts):
    """A step of 1, 2 or 5 times a power of ten that cuts `span` into about `parts`."""
    rough = span / parts
    power = 10.0 ** np.floor(np.log10(rough))
    return power * min((1, 2, 5, 10), key=lambda step: abs(step - rough / power))


class Sheet:
    """The paper, measured in the pixels of the final picture."""

    def __init__(self, width, height):
        self.image = Image.new("RGB", (width * SCALE, height * SCALE), PAPER)
        self.pen = ImageDraw.Draw(self.image)
        self.size = (width, height)
        self.font = ImageFont.load_default(size=15 * SCALE)
        self.large = ImageFont.load_default(size=18 * SCALE)

    def paste(self, pixels, x, y):
        self.image.paste(Image.fromarray(pixels), (x * SCALE, y * SCALE))

    def line(self, x0, y0, x1, y1, colour=INK):
        self.pen.line([v * SCALE for v in (x0, y0, x1, y1)], fill=colour, width=SCALE)

    def text(self, x, y, words, anchor, font=None, colour=INK):
        self.pen.text((x * SCALE, y * SCALE), words, fill=colour, font=font or self.font, anchor=anchor)

    def frame(self, x, y, width, height):
        self.pen.rectangle([v * SCALE for v in (x, y, x + width, y + height)], outline=INK, width=SCALE)

    def save(self, path):
        self.image.resize(self.size, Image.Resampling.LANCZOS).save(path, format="PNG", optimize=True)


def draw_axes(sheet, x, y):
    sheet.frame(x, y, PANEL, PANEL)
    for part, words in ((0, "0"), (0.5, "0.5"), (1, "1")):
        across, down = x + part * PANEL, y + (1 - part) * PANEL
        sheet.line(across, y + PANEL, across, y + PANEL + 5)
        sheet.text(across, y + PANEL + 10, words, "mt")
        sheet.line(x - 5, down, x, down)
        sheet.text(x - 10, down, words, "rm")
    sheet.text(x + PANEL * 0.75, y + PANEL + 10, "x", "mt", colour=QUIET)
    sheet.text(x - 14, y + PANEL * 0.25, "y", "rm", colour=QUIET)


def draw_blocks(sheet, x, y, header, shade):
    """The borders between the blocks of the ranks, dashed."""
    for axis, parts in ((0, int(header["rank_columns"])), (1, int(header["rank_rows"]))):
        for part in range(1, parts):
            at = PANEL * part / parts
            for dash in range(0, PANEL, 10):
                ends = (x + at, y + dash, x + at, y + dash + 5)
                if axis == 1:
                    ends = (x + dash, y + PANEL - at, x + dash + 5, y + PANEL - at)
                sheet.line(*ends, colour=shade)


def draw_bar(sheet, x, y, low, high, anchors, step):
    pixels = np.linspace(1, 0, PANEL * SCALE)[:, np.newaxis].repeat(BAR_WIDTH * SCALE, axis=1)
    sheet.paste(colours(pixels, anchors), x, y)
    sheet.frame(x, y, BAR_WIDTH, PANEL)
    for i in range(int(np.ceil(low / step - 1e-9)), int(np.floor(high / step + 1e-9)) + 1):
        at = y + PANEL * (1 - (i * step - low) / (high - low))
        sheet.line(x + BAR_WIDTH, at, x + BAR_WIDTH + 5, at)
        sheet.text(x + BAR_WIDTH + 10, at, f"{i * step:.3g}", "lm")


def draw_panel(sheet, x, title, field, low, high, anchors, header, shade):
    values = enlarged(field, PANEL * SCALE)
    step = nice_step(high - low, 8)
    pixels = colours((values - low) / (high - low), anchors)
    levels = np.arange(np.ceil(low / step), np.floor(high / step) + 1) * step
    lines = contours(values, levels[np.abs(levels) > step / 2])
    pixels[lines] = (0.6 * pixels[lines] + 0.4 * np.array(shade)).astype(np.uint8)
    sheet.paste(pixels, x, TOP)
    draw_blocks(sheet, x, TOP, header, shade)
    draw_axes(sheet, x, TOP)
    draw_bar(sheet, x + PANEL + BAR_GAP, TOP, low, high, anchors, step)
    sheet.text(x, TOP - 20, title, "ls", sheet.large)


def draw(path, header, field, error):
    """Writes the picture of a field and of its error to `path`."""
    sheet = Sheet(LEFT + 2 * PANEL + GAP + RIGHT, TOP + PANEL + BOTTOM)
    ranks = int(header["rank_rows"] * header["rank_columns"])
    points, steps = int(header["points"]), int(header["steps"])
    high = float(field.max()) or 1.0
    draw_panel(sheet, LEFT, f"temperature after {steps} steps, t = {header['time']:.3g}", field,
               0.0, high, HEAT, header, (255, 255, 255))
    far = float(np.abs(error).max()) or 1.0
    draw_panel(sheet, LEFT + PANEL + GAP, "computed minus exact", error, -far, far, DIVERGING,
               header, (60, 60, 60))
    sheet.text(LEFT + 2 * PANEL + GAP, TOP - 20, f"{points} x {points} points on {ranks} ranks", "rs",
               colour=QUIET)
    sheet.save(path)
