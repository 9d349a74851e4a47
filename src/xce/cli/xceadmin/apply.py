"""`xceadmin apply`: put the configuration files of a running cluster in effect."""

import argparse
import json
import sys

from xce.cli.xceadmin.apiserver import STATUS_OF_CODE
from xce.client.rest import Api, ProblemError, UnreachableError
from xce.daemon.paths import find_layout
from xce.daemon.settings import Settings


def run_apply(settings: Settings, options: argparse.Namespace) -> int:
    """Have the files read and put in effect; return the exit status."""
    api = Api(str(find_layout(settings.state_dir).api_socket), wait_s=options.wait_daemon)
    try:
        answer = api.call("POST", "/config/actions", document={"action": "apply"})
    except ProblemError as error:
        print(error.text, file=sys.stderr)
        return STATUS_OF_CODE.get(error.code, 1)
    except UnreachableError as error:
        print(f"xceadmin apply: {error}", file=sys.stderr)
        return 5
    finally:
        api.close()
    if options.json:
        print(json.dumps(answer))
        return 0
    print(f"configuration: {answer['text']}")
    if answer["new_hosts"]:
        names = " ".join(answer["new_hosts"])
        print(f"new hosts need a worker, which `xce down` and `xce up` start: {names}")
    return 0
