"""What a ``bsub`` call asks for: the options of command line and script, and where each stood."""

import os
from collections.abc import Callable
from typing import Final

import msgspec

from xce.cli.lsf.bsub import OPTIONS as BSUB
from xce.cli.lsf.options import FLAG, VALUE, Options, Parsed, UsageError, parse_options
from xce.cli.lsf.script import MARK, directive_lines, split_words, unify_line_ends
from xce.cli.lsf.submission import merge_options, read_all, read_file
from xce.cli.lsf.values import BadValueError

UNKNOWN_OPTION: Final = 2
"""Exit status for an option that is unknown or not supported."""
INTERACTIVE: Final = ("-I", "-Ip", "-Is", "-IS", "-ISp", "-ISs", "-IX", "-XF")
_FLAGS: Final = (*INTERACTIVE, "-tty", "-N", "-Ne", "-B", "-r", "-rn", "--explain")
_VALUES: Final = (
    "-u", "-notify", "-outdir", "-G", "-g", "-app", "-Q", "-E", "-Ep", "-L",
)  # fmt: skip
OPTIONS: Final = Options(
    {**BSUB.known, **dict.fromkeys(_FLAGS, FLAG), **dict.fromkeys(_VALUES, VALUE)},
    {name: why for name, why in BSUB.refused.items() if name not in (*_FLAGS, *_VALUES)},
    bundled=False,
    sticky=BSUB.sticky,
    usage_status=UNKNOWN_OPTION,
)
"""The options that are understood: those that a submit takes, and some that it still refuses."""
_SCRIPT_MAX: Final = 1 << 24
_NO_DIRECTIVES: Final = ("-h", "-help", "-V", "--wait-daemon", "--explain")


class Asked(msgspec.Struct, kw_only=True):
    """What is asked for."""

    options: Parsed
    """Command line and script, merged."""
    places: dict[str, str]
    """Option -> where its values stood."""
    command: str = ""
    script: str = ""
    """``stdin`` or the name of the file; empty: a command."""
    args: list[str] = []
    """Arguments of a script."""
    warnings: list[str] = []


def read_asked(line: Parsed, parses_scripts: Callable[[], bool]) -> Asked:
    """Return what command line, named script and stdin say.

    Args:
        line: The command line.
        parses_scripts: Whether directives in a script that is named as first word count.

    Raises:
        UsageError: A directive has an option that is unknown or not supported.
        BadValueError: A directive or the script cannot be read.
    """
    found = Asked(options=line, places={})
    content = b""
    if line.rest:
        content = _named_script(line.rest[0]) or b""
        if content and parses_scripts():
            found.script, found.args = line.rest[0], line.rest[1:]
        else:
            content = b""
            found.command = " ".join(line.rest)
    else:
        content = b"" if os.isatty(0) else read_all(0)
        found.script = "stdin" if content.strip() else ""
    if not found.command.strip() and not found.script:
        found.warnings.append("there is no command: a submit refuses an empty job")
    script, places = _directives(_decode(content, found.warnings))
    found.options = merge_options(line, script)
    for option in found.options.given:
        found.places[option] = "command line" if line.has(option) else places[option]
    return found


def _decode(content: bytes, warnings: list[str]) -> str:
    if b"\0" in content:
        raise BadValueError("The job script holds NUL bytes, so it is no text")
    text, is_changed = unify_line_ends(content.decode("utf-8", "surrogateescape"))
    if is_changed:
        warnings.append("the script's line ends are CRLF; the job runs it with LF")
    return text


def _named_script(word: str) -> bytes | None:
    """Return the content of the file that a word names, if it is a script with directives."""
    try:
        found = os.stat(word)  # noqa: PTH116 - as bsub does it
        if found.st_mode & 0o170000 != 0o100000 or found.st_size > _SCRIPT_MAX:
            return None
        content = read_file(word)
    except (OSError, ValueError):
        return None
    is_script = b"\0" not in content and directive_lines(content.decode("utf-8", "replace"))
    return content if is_script else None


def _directives(text: str) -> tuple[Parsed, dict[str, str]]:
    """Return what the directives of a script say, and on which lines each option stands.

    Raises:
        UsageError: A line has an option that is unknown or not supported.
        BadValueError: A line cannot be read whole.
    """
    given: dict[str, list[str]] = {}
    lines: dict[str, list[str]] = {}
    for number, line in directive_lines(text):
        where = f"line {number} of the script, {line!r}: "
        try:
            parsed = parse_options(split_words(line[len(MARK) :]), OPTIONS, until_word=False)
        except UsageError as error:
            raise UsageError(f"{where}{error}") from None
        except BadValueError as error:
            raise BadValueError(f"{where}{error}") from None
        if parsed.rest:
            raise BadValueError(f"{where}{parsed.rest[0]!r} belongs to no option")
        for option, values in parsed.given.items():
            if option in _NO_DIRECTIVES:
                raise UsageError(f"{where}{option} does not stand in a script")
            given.setdefault(option, []).extend(values)
            lines.setdefault(option, []).append(str(number))
    places = {
        option: f"line{'s' * (len(found) > 1)} {', '.join(found)} of the script"
        for option, found in lines.items()
    }
    return Parsed(given, []), places
