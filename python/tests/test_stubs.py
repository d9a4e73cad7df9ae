"""The type stubs say what the package has: every public name, and of every function the same arguments in order."""
# SPDX-License-Identifier: Apache-2.0

import ast
import inspect
import pathlib

import pytest

import polyconv


def declared(module):
    """What a stub declares: name -> its node."""
    tree = ast.parse((pathlib.Path(module.__file__).parent / "__init__.pyi").read_text(encoding="utf-8"))
    names = {}
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names[node.name] = node
        elif isinstance(node, ast.ImportFrom):
            names.update({alias.asname or alias.name: node for alias in node.names})
    return names


def arguments_of(node):
    return [each.arg for each in node.args.posonlyargs + node.args.args + node.args.kwonlyargs]


def compare(module, least=4):
    stubs = declared(module)
    assert set(module.__all__) - set(stubs) == set()
    compared = 0
    for name in module.__all__:
        thing, node = getattr(module, name), stubs[name]
        if isinstance(node, ast.FunctionDef):
            assert arguments_of(node) == [
                each.name for each in inspect.signature(thing).parameters.values() if each.kind is not each.VAR_KEYWORD
            ], name
            compared += 1
        elif isinstance(node, ast.ClassDef):
            members = [each for each in node.body if isinstance(each, ast.FunctionDef)]
            members += [each.target for each in node.body if isinstance(each, ast.AnnAssign)]
            for each in members:
                member = each.name if isinstance(each, ast.FunctionDef) else each.id
                known = hasattr(thing, member) or member in ("text", "candidates")  # these two are set in __init__
                assert known, f"{name}.{member}"
    assert compared > least


def test_the_package():
    compare(polyconv)


def test_torch():
    pytest.importorskip("torch")
    import polyconv.torch

    compare(polyconv.torch)


def test_jax():
    pytest.importorskip("jax")
    import polyconv.jax

    compare(polyconv.jax, 2)
