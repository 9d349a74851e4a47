"""`xceadmin apply`: put the configuration files of a running cluster in effect."""

import argparse
import json

from xce.cli.xceadmin.apiserver import ask_apiserver, tell
from xce.daemon.settings import Settings


def run_apply(settings: Settings, options: argparse.Namespace) -> int:
    """Have the files read and put in effect; return the exit status."""
    code, answer = ask_apiserver(
        settings, "apply", "POST", "/config/actions", document={"action": "apply"},
        wait_s=options.wait_daemon, progress=tell,
    )  # fmt: skip
    if code:
        return code
    if options.json:
        print(json.dumps(answer))
        return 0
    print(f"configuration: {answer['text']}")
    if answer["new_hosts"]:
        names = " ".join(answer["new_hosts"])
        print(f"new hosts need a worker, which `xce down` and `xce up` start: {names}")
    return 0
