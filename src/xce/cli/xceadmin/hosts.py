"""`xceadmin hosts open|close`: let hosts take new work, or no more of it."""

import json
import sys
from typing import Final

from xce.client.rest import Api, ProblemError, UnreachableError, make_key
from xce.config.names import expand_names
from xce.daemon.paths import find_layout
from xce.daemon.settings import Settings
from xce.model.errors import TextError

STATUS_OF_CODE: Final = {"unknown-host": 3, "denied": 4, "not-yours": 4}
"""Exit statuses of refusals; all others are 1."""


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
    api = Api(str(find_layout(settings.state_dir).api_socket), wait_s=wait_s, progress=_tell)
    document = {"action": action, "hosts": names, "comment": comment}
    try:
        answer = api.call("POST", "/hosts/actions", document=document, key=make_key())
    except ProblemError as error:
        print(f"xceadmin hosts: {error.text}", file=sys.stderr)
        return STATUS_OF_CODE.get(error.code, 1)
    except UnreachableError as error:
        print(f"xceadmin hosts: {error}", file=sys.stderr)
        return 5
    finally:
        api.close()
    if as_json:
        print(json.dumps(answer["results"], indent=2))
    status = 0
    for result in answer["results"]:
        refusal = result.get("error")
        if refusal:
            print(f"{result['host']}: {refusal['text']}", file=sys.stderr)
            status = status or STATUS_OF_CODE.get(refusal["code"], 1)
        elif not as_json:
            print(f"{result['host']}: {result['text']}")
    return status


def _tell(text: str) -> None:
    print(text, file=sys.stderr)
