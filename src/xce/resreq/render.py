"""The tree of a resource requirement to text, in one normal form."""

from typing import Final, assert_never

from xce.resreq import ast

_LEVEL: Final = {"==": 3, "!=": 3, "+": 5, "-": 5, "*": 6, "/": 6}
_UNARY: Final = 7
_PRIMARY: Final = 8


def render_requirement(requirement: ast.Requirement) -> str:
    """Return the text of a requirement; parsed again it gives an equal tree."""
    match requirement:
        case ast.Simple():
            return _render_simple(requirement)
        case ast.Compound(parts, same):
            text = " + ".join(map(_render_compound_part, parts))
            return f"{{{text}}} same[{':'.join(same)}]" if same else text
        case ast.Alternatives(choices):
            return " || ".join(
                f"{{{render_requirement(choice.requirement)}}}"
                + (f"@{choice.delay_min}" if choice.delay_min >= 0 else "")
                for choice in choices
            )
        case _:
            assert_never(requirement)


def render_expression(expression: ast.Expression) -> str:
    """Return the text of a select expression; parsed again it gives an equal tree."""
    match expression:
        case ast.Number(text, unit):
            return text + unit
        case ast.Name(name):
            return name
        case ast.Text(value):
            return f'"{value}"' if "'" in value else f"'{value}'"
        case ast.Defined(name):
            return f"defined({name})"
        case ast.Not(part):
            return "!" + _inner(part, _UNARY)
        case ast.Negative(part):
            return "-" + _inner(part, _UNARY)
        case ast.Chain(first, rest):
            level = _level(expression)
            texts = [_inner(first, level)]
            texts += [f"{op} {_inner(part, level + 1)}" for op, part in rest]
            return " ".join(texts)
        case ast.Compare(op, left, right):
            level = _level(expression)
            return f"{_inner(left, level + 1)} {op} {_inner(right, level + 1)}"
        case ast.And(parts):
            return " && ".join(_inner(part, 3) for part in parts)
        case ast.Or(parts):
            return " || ".join(_inner(part, 2) for part in parts)
        case _:
            assert_never(expression)


def render_order(keys: tuple[ast.OrderKey, ...]) -> str:
    """Return the keys of ``order[]`` as text."""
    return ":".join(key.mark + key.name for key in keys)


def render_affinity(affinity: ast.Affinity) -> str:
    """Return what stands between the brackets of ``affinity[]``."""
    unit = [str(affinity.count)]
    if affinity.same:
        unit.append(f"same={affinity.same}")
    if affinity.exclusive:
        scope = f",{affinity.scope}" if affinity.scope else ""
        unit.append(f"exclusive=({affinity.exclusive}{scope})")
    text = f"{affinity.unit}({','.join(unit)})"
    if affinity.repeat > 1:
        text += f"*{affinity.repeat}"
    if affinity.cpubind:
        text += f":cpubind={affinity.cpubind}"
    if affinity.membind:
        text += f":membind={affinity.membind}"
    if affinity.distribute:
        text += f":distribute={affinity.distribute}"
    if affinity.distribute_level:
        text += f"({affinity.distribute_level}={affinity.distribute_count})"
    return text


def _inner(part: ast.Expression, level: int) -> str:
    text = render_expression(part)
    return text if _level(part) >= level else f"({text})"


def _level(expression: ast.Expression) -> int:
    """Return how tight an expression binds, as `expression._LEVEL` counts."""
    match expression:
        case ast.Or():
            return 1
        case ast.And():
            return 2
        case ast.Compare(op):
            return _LEVEL.get(op, 4)
        case ast.Chain(_, rest):
            return _LEVEL[rest[0][0]]
        case ast.Not() | ast.Negative():
            return _UNARY
        case _:
            return _PRIMARY


def _render_simple(simple: ast.Simple) -> str:
    sections = []
    if simple.select is not None:
        sections.append(f"select[{render_expression(simple.select)}]")
    if simple.order:
        sections.append(f"order[{render_order(simple.order)}]")
    if simple.rusage is not None:
        groups = (", ".join(map(_render_part, group)) for group in simple.rusage.groups)
        sections.append(f"rusage[{' || '.join(groups)}]")
    if simple.span is not None:
        sections.append(f"span[{_render_span(simple.span)}]")
    if simple.same:
        sections.append(f"same[{':'.join(simple.same)}]")
    if simple.cu is not None:
        sections.append(f"cu[{_render_compute_units(simple.cu)}]")
    if simple.affinity is not None:
        sections.append(f"affinity[{render_affinity(simple.affinity)}]")
    return " ".join(sections)


def _render_compound_part(part: ast.CompoundPart) -> str:
    texts = [f"{part.name}:"] if part.name else []
    texts += [text] if (text := _render_simple(part.simple)) else []
    count = f"{part.count}*" if part.count else ""
    return f"{count}{{{' '.join(texts)}}}"


def _render_part(part: ast.RusagePart) -> str:
    settings = []
    for item in part.items:
        value = _render_each([number.text + number.unit for number in item.values])
        settings.append(f"{item.name}={value}" + (f"/{item.per}" if item.per else ""))
    if part.durations_s:
        settings.append(f"duration={_render_each([_span(s) for s in part.durations_s])}")
    if part.decays:
        settings.append(f"decay={_render_each([str(decay) for decay in part.decays])}")
    if part.threshold is not None:
        settings.append(f"threshold={part.threshold.text}{part.threshold.unit}")
    settings += [
        f"{name}={','.join(map(_word, value.split(',')))}"
        if name == "mps"
        else f"{name}={_word(value)}"
        for name, value in part.gpu
    ]
    return ":".join(settings)


def _render_each(texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else f"({' '.join(texts)})"


def _span(span_s: int) -> str:
    if span_s % 3600 == 0:
        return f"{span_s // 3600}h"
    return f"{span_s // 60}m" if span_s % 60 == 0 else f"{span_s}s"


def _render_span(span: ast.Span) -> str:
    if span.form == "stripe" and span.count == 0:
        return "stripe"
    count = str(span.count) if span.count else "'!'"
    return f"{span.form}={count}" + "".join(
        f",{_word(name)}:{tasks}" for name, tasks in span.by_type
    )


def _word(name: str) -> str:
    is_word = name.replace(".", "_").isidentifier() and name.isascii() and name[0] != "."
    return name if is_word else render_expression(ast.Text(name))


def _render_compute_units(cu: ast.ComputeUnits) -> str:
    settings = []
    if cu.type:
        settings.append(f"type={cu.type}")
    if cu.pref:
        settings.append(f"pref={cu.pref}")
    if cu.maxcus:
        settings.append(f"maxcus={cu.maxcus}")
    if cu.usablecuslots:
        settings.append(f"usablecuslots={cu.usablecuslots}")
    settings += ["balance"] * cu.balance + ["excl"] * cu.excl
    if cu.maxwait_s:
        settings.append(f"maxwait={_span(cu.maxwait_s)}")
    return ":".join(settings)
