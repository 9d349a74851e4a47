"""A command and all that it printed, as one text."""

from fake_api import run_command


def transcript(module, words, routes, environ=None):
    status, out, err = run_command(module, words, routes, environ)
    name = module.__name__.rpartition(".")[2]
    shown = " ".join(f"'{word}'" if " " in word or "[" in word else word for word in words)
    return (
        f"$ {name} {shown}".rstrip()
        + f"\n{out}"
        + "".join(f"stderr: {line}\n" for line in err.splitlines())
        + f"status: {status}\n"
    )
