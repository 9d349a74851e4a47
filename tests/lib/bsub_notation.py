"""The notation of ``tests/data/bsub-cases*.yaml``, and what ``bsub --explain`` says in it."""

import re

from xce.model.dependency import And, Condition, Not, Or
from xce.resreq import ast
from xce.resreq.dependency import parse_dependency
from xce.resreq.parser import parse_requirement
from xce.resreq.render import render_affinity

# --- prefix forms: tuples of words and tuples; "and" and "or" are flat and sorted -----------------

_WORD = re.compile(r'"[^"]*"|\'[^\']*\'|[()]|[^\s()]+')


def parse_prefix(text):
    """Return the tree of a prefix form; a lone word is itself."""
    words = _WORD.findall(text)
    tree, rest = _parse_one(words)
    assert not rest, text
    return tree


def _parse_one(words):
    first, *rest = words
    if first != "(":
        return _unquoted(first), rest
    parts = []
    while rest[0] != ")":
        part, rest = _parse_one(rest)
        parts.append(part)
    return flat(*parts), rest[1:]


def _unquoted(word):
    return word[1:-1] if word[0] in "\"'" else word


def flat(op, *parts):
    """Return a form; parts of a chain of one operator are joined and sorted."""
    if op not in ("and", "or"):
        return (op, *parts)
    found = []
    for part in parts:
        found += part[1:] if isinstance(part, tuple) and part[0] == op else (part,)
    return (op, *sorted(found, key=repr))


def select_form(node):
    """Return the prefix form of a select expression."""
    match node:
        case ast.Number(text, unit):
            return text + unit
        case ast.Name(name) | ast.Text(name):
            return name
        case ast.Defined(name):
            return ("defined", name)
        case ast.Not(part):
            return ("not", select_form(part))
        case ast.Negative(part):
            return ("-", select_form(part))
        case ast.Compare(op, left, right):
            return (op, select_form(left), select_form(right))
        case ast.And(parts):
            return flat("and", *map(select_form, parts))
        case ast.Or(parts):
            return flat("or", *map(select_form, parts))
        case ast.Chain(first, rest):
            form = select_form(first)
            for op, part in rest:
                form = (op, form, select_form(part))
            return form


def dependency_form(node):
    """Return the prefix form of a dependency."""
    match node:
        case Condition(test, subjects, op, code):
            subject = subjects[0]
            word = subject.name or str(subject.job)
            if subject.index >= 0:
                word += f"[{subject.index}]"
            return (str(test), word, *((op, str(code)) if op else ()))
        case Not(part):
            return ("not", dependency_form(part))
        case And(parts):
            return flat("and", *map(dependency_form, parts))
        case Or(parts):
            return flat("or", *map(dependency_form, parts))


# --- sections ------------------------------------------------------------------------------------


def _terms(group):
    found = []
    for part in group:
        for item in part.items:
            numbers = [number.text for number in item.values]
            value = numbers[0] if len(numbers) == 1 else f"({' '.join(numbers)})"
            words = [f"{item.name}={value}" + (f"/{item.per}" if item.per else "")]
            words += [f"decay={decay}" for decay in part.decays]
            words += [f"duration={span_s}s" for span_s in part.durations_s]
            words += [f"threshold={part.threshold.text}"] if part.threshold else []
            words += [f"{name}={value}" for name, value in part.gpu]
            found.append(" ".join(words))
    return found


def _span(span):
    if span.form == "stripe" and not span.count:
        return {"stripe": True}
    found = {span.form: span.count or "!"}
    return {**found, "by_type": dict(span.by_type)} if span.by_type else found


def _compute_units(cu):
    fields = ("type", "pref", "maxcus", "usablecuslots", "balance", "excl", "maxwait_s")
    return {name: getattr(cu, name) for name in fields if getattr(cu, name)}


def simple_reading(simple):
    """Return the sections of a requirement."""
    found = {}
    if simple.select is not None:
        found["select"] = select_form(simple.select)
    if simple.order:
        found["order"] = [key.mark + key.name for key in simple.order]
    if simple.rusage is not None:
        groups = [_terms(group) for group in simple.rusage.groups]
        found["rusage"] = groups[0] if len(groups) == 1 else {"or": groups}
    if simple.span is not None:
        found["span"] = _span(simple.span)
    if simple.same:
        found["same"] = list(simple.same)
    if simple.cu is not None:
        found["cu"] = _compute_units(simple.cu)
    if simple.affinity is not None:
        found["affinity"] = render_affinity(simple.affinity)
    return found


def resreq_reading(text):
    """Return what a canonical requirement text says."""
    match parse_requirement(text):
        case ast.Simple() as simple:
            return simple_reading(simple)
        case ast.Compound() as compound:
            return compound_reading(compound)
        case ast.Alternatives(choices):
            found = []
            for choice in choices:
                inner = choice.requirement
                is_simple = isinstance(inner, ast.Simple)
                reading = simple_reading(inner) if is_simple else compound_reading(inner)
                if choice.delay_min > 0:
                    reading["delay_min"] = choice.delay_min
                found.append(reading)
            return {"alternatives": found}


def compound_reading(compound):
    """Return the parts of a compound requirement."""
    parts = []
    for part in compound.parts:
        name = {"name": part.name} if part.name else {}
        parts.append({"n": part.count, **name, **simple_reading(part.simple)})
    return {"parts": parts, **({"same": list(compound.same)} if compound.same else {})}


# --- the whole -----------------------------------------------------------------------------------

_FILES = {"output": "output", "error_file": "error", "input_file": "input"}
DEFAULTS = {
    "n": [1, 1], "select": None, "order": None, "rusage": None, "span": None, "same": None,
    "cu": None, "affinity": None, "parts": None, "alternatives": None, "run_limit_s": None,
    "mem_limit_mib": None, "array": None, "dependency": None, "output": None,
    "error_file": None, "input_file": None, "exclusive": False, "gpu": None, "queue": None,
    "name": None,
}  # fmt: skip


def reading_of(explained):
    """Return what ``bsub --explain`` said, as an ``expect`` of the cases."""
    found = {**DEFAULTS, **explained, **resreq_reading(explained["resreq"])}
    if explained["dependency"] and not explained["dependency"].startswith("num"):
        found["dependency"] = dependency_form(parse_dependency(explained["dependency"]))
    for key, member in _FILES.items():
        value = explained[member]
        if value:
            mark = "<" if member == "input" else (">>" if value["append"] else ">")
            value = f"{mark} {value['path']}"
        found[key] = value
    return found


def normal(expect):
    """Return an expectation with its prefix forms read."""
    found = dict(expect)
    for key in ("select", "dependency"):
        value = found.get(key)
        if isinstance(value, str) and value != "any" and not value.startswith("num"):
            found[key] = parse_prefix(value)
    for key in ("parts", "alternatives"):
        if key in found:
            found[key] = [normal(part) for part in found[key]]
    return found
