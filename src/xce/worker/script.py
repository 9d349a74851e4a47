"""What a job's text is for the host: a program by its ``#!`` line, or lines for the shell. Pure."""

import re
from typing import Final

EXEC: Final = "exec"
SOURCE: Final = "source"
SIMPLE: Final = "simple"

# Names of a program and plain words: nothing for the shell to expand, to leave, or to change.
_PLAIN: Final = re.compile(rb"(?P<name>[\w./+@%-]+)(?:[ \t]+[\w./+@%=:,-]+)*[ \t]*\n?")
_OF_THE_SHELL: Final = frozenset(
    b"""alias bg bind break builtin caller case cd chdir command compgen complete compopt continue
    coproc declare dirs disown do done echo elif else enable esac eval exec exit export false fc fg
    fi for function getopts hash help history if in jobs kill let local logout mapfile newgrp popd
    printf pushd pwd read readarray readonly return select set shift shopt source suspend test then
    time times trap true type typeset ulimit umask unalias unset until wait while . [ print whence
    autoload integer float nameref""".split()
)


def prepare_script(text: bytes) -> tuple[bytes, str]:
    """Return the text as it is stored on the host, and the way that the job shell runs it.

    Line ends of other systems become newlines: a script with CRLF fails in ways that nobody
    understands. A blank line before ``#!`` means that there is no ``#!``, as in LSF.
    """
    if b"\r\n" in text:
        text = text.replace(b"\r\n", b"\n")
    if text.startswith(b"#!"):
        return text, EXEC
    plain = _PLAIN.fullmatch(text)
    if plain is not None and plain["name"] not in _OF_THE_SHELL:
        return text, SIMPLE
    return text, SOURCE
