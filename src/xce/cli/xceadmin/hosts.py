"""`xceadmin hosts open|close`: let hosts take new work, or no more of it."""

import json
import sys

from xce.cli.xceadmin.apiserver import STATUS_OF_CODE, ask_apiserver, tell
from xce.config.names import expand_names
from xce.daemon.settings import Settings
from xce.model.errors import TextError


def run_hosts(
    settings: Settings,
    action: str,
    patterns: list[str],
    *,
    comment: str,
    wait_s: float,
    as_json: bool,
) -> int:
    """Open or close hosts; return 0 when all were, else the status of the first refusal."""
    try:
        names = list(expand_names(",".join(patterns)))
    except TextError as error:
        print(f"xceadmin hosts: {error.message}", file=sys.stderr)
        return 2
    document = {"action": action, "hosts": names, "comment": comment}
    status, answer = ask_apiserver(
        settings, "hosts", "POST", "/hosts/actions", document=document,
        wait_s=wait_s, progress=tell,
    )  # fmt: skip
    if answer is None:
        return status
    if as_json:
        print(json.dumps(answer["results"], indent=2))
    for result in answer["results"]:
        refusal = result.get("error")
        if refusal:
            print(f"{result['host']}: {refusal['text']}", file=sys.stderr)
            status = status or STATUS_OF_CODE.get(refusal["code"], 1)
        elif not as_json:
            print(f"{result['host']}: {result['text']}")
    return status
