"""Where the elements of an array are: strides, and the layout that says the same in one word."""
# SPDX-License-Identifier: Apache-2.0


def places(settings, seen_axes, spatial):
    """Where batch, channels and the spatial axes of an array are; None for an axis that it does not have."""
    if settings.image:
        return [None, 2 if seen_axes == 3 else None, 0, 1]
    batched = seen_axes == spatial + 2
    first = 1 if batched else 0
    if settings.channels_last:
        return [0 if batched else None, first + spatial] + list(range(first, first + spatial))
    return [0 if batched else None, first] + list(range(first + 1, first + 1 + spatial))


def in_order(values, where, absent):
    return [absent if place is None else values[place] for place in where]


def dense_strides(sizes, order):
    strides, step = [0] * len(sizes), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= max(sizes[axis], 1)
    return strides


def layout_of(sizes, strides, prefer_last):
    """0 for dense channels first, 1 for dense channels last, None for neither. Axes of one element fit both."""
    axes = len(sizes)
    orders = {0: list(range(axes)), 1: [0] + list(range(2, axes)) + [1]}
    for layout in (1, 0) if prefer_last else (0, 1):
        dense = dense_strides(sizes, orders[layout])
        if all(size <= 1 or have == want for size, have, want in zip(sizes, strides, dense)):
            return layout
    return 0 if 0 in sizes else None


def describe(problem, field, sizes, strides, prefer_last, keep_layout=False):
    """Says where a tensor's elements are, as a layout where it is dense; with keep_layout only as the one that stands there."""
    layout = layout_of(sizes, strides, prefer_last)
    if layout is not None and (not keep_layout or layout == problem[field + "_layout"]):
        problem[field + "_layout"] = layout
        return
    problem["has_" + field + "_strides"] = 1
    problem[field + "_strides"] = [step if size > 1 else 1 for size, step in zip(sizes, strides)]
