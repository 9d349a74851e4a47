"""The table of LSF's commands and options in ``docs/lsf-commands.md``, made from the code's own.

``python -m xce.cli.xceadmin.lsf_table`` prints the page. A command's table of options is what reads
its command line, so the page cannot say anything else than the command does.
"""

import importlib
from collections.abc import Iterator
from typing import Final

from xce.cli.lsf.absent import ABSENT
from xce.cli.lsf.options import FLAG, MANY, Options
from xce.cli.xce.launchers import each_lsf_command

OWN: Final = frozenset(("-h", "-help", "-V", "--wait-daemon"))
"""What every command has."""
_PAGE: Final = """\
# LSF commands and options

This page is made from the option tables of the commands themselves
(`python -m xce.cli.xceadmin.lsf_table`); a test compares the two. All commands have `-h`, `-V` and
`--wait-daemon SECONDS`. What is refused is refused with exit status 255 and these words.
"""


def command_options(name: str) -> Options:
    """Return the options of a command."""
    module = importlib.import_module(f"xce.cli.lsf.{name}")
    options = module.OPTIONS
    assert isinstance(options, Options)
    return options


def subcommands(name: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the subcommands that a command has, and those that it refuses."""
    module = importlib.import_module(f"xce.cli.lsf.{name}")
    refused: dict[str, str] = module.REFUSED if hasattr(module, "SUBCOMMANDS") else {}
    return getattr(module, "SUBCOMMANDS", ()), refused


def render_page() -> str:
    """Return the page."""
    names = sorted(set(each_lsf_command()) - {"absent"})
    lines = [_PAGE, "| command | options | refused |", "|---|---|---|"]
    for name in names:
        options = command_options(name)
        known = [option for option in options.known if option not in OWN]
        lines.append(f"| [`{name}`](#{name}) | {len(known)} | {len(options.refused)} |")
    for name in names:
        lines += ["", f"## {name}", "", *_render_command(name)]
    lines += ["", "## Commands that are absent", "", "| command | instead |", "|---|---|"]
    lines += [f"| `{name}` | {ABSENT[name]} |" for name in sorted(ABSENT) if name not in names]
    return "\n".join([*lines, ""])


def _render_command(name: str) -> Iterator[str]:
    options = command_options(name)
    words, absent = subcommands(name)
    if words:
        yield f"Subcommands: {', '.join(f'`{word}`' for word in words)}."
        yield ""
    rows = []
    for option, kind in options.known.items():
        if option not in OWN:
            value = "" if kind == FLAG else " *value*"
            more = ", several times" if kind == MANY else ""
            rows.append((option, f"| `{option}`{value} | supported{more} |"))
    for option, instead in options.refused.items():
        text = f"refused: {_cell(instead)}" if instead else "refused: XCE has no such thing"
        rows.append((option, f"| `{option}` | {text} |"))
    if not rows and not words:
        yield "No options of its own."
        return
    if rows:
        yield from ("| option | |", "|---|---|")
        yield from (row for _, row in sorted(rows))
    if absent:
        yield from ("", "| subcommand | |", "|---|---|")
        for word, instead in sorted(absent.items()):
            yield f"| `{word}` | refused: {_cell(instead)} |"


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def main() -> None:
    """Print the page."""
    print(render_page(), end="")


if __name__ == "__main__":
    main()
