"""An attempt of the history as a line of LSF's ``lsb.acct``: a ``JOB_FINISH`` record.

Blank-separated fields in LSF's order; texts in double quotes, with ``""`` for one inside. What XCE
does not know is ``-1``, ``0`` or an empty text, as LSF writes it.
"""

from typing import Any, Final

from xce.journal.past import PastAttempt, PastJob, PastWithdrawal
from xce.model.ids import SECOND_US, Index, Micros
from xce.model.job import AS_DONE, EndCause, Outcome

VERSION: Final = "10.1"
_DONE, _EXIT = 64, 32
_EXCLUSIVE: Final = 0x40


def _text(value: str) -> str:
    doubled = value.replace('"', '""').replace("\n", ";")
    return f'"{doubled}"'


def _seconds(at_us: Micros) -> str:
    return str(at_us // SECOND_US)


def render_acct(
    past: PastJob, index: Index, attempt: PastAttempt | None, gone: PastWithdrawal | None
) -> str:
    """Return the line about one element.

    Args:
        past: The job.
        index: The element.
        attempt: How it ran; None: it never did.
        gone: How it ended before it started; None: it did start.
    """
    past = past.at(index)
    spec, key, request = past.spec, past.key, past.key.request
    hosts = [name for name, slots in (attempt.hosts if attempt else ()) for _ in range(slots)]
    asked = spec.hosts_asked.split()
    ended = attempt.ended if attempt is not None else None
    end_us = ended.ended_at_us if ended is not None else (gone.at_us if gone is not None else 0)
    is_done = ended is not None and ended.outcome == Outcome.DONE
    status = 0
    if ended is not None:
        status = ended.signal or (ended.exit_code << 8)
    cause = ended.cause if ended is not None else (gone.cause if gone is not None else 0)
    cause = next((told for told, kept in AS_DONE.items() if kept == cause), cause)
    is_known = attempt is not None and attempt.is_measured
    cpu = f"{ended.cpu_us / SECOND_US:.6f}" if ended is not None and is_known else "-1"
    usage = [cpu, "0.000000", *["-1"] * 17]
    name = spec.name or spec.command
    fields: list[Any] = [
        '"JOB_FINISH"', _text(VERSION), _seconds(end_us), past.job, past.owner.uid,
        _EXCLUSIVE if request.exclusive else 0, request.tasks_min, _seconds(past.submit_at_us), 0,
        0, _seconds(ended.started_at_us if ended is not None else 0), _text(past.owner.user),
        _text(key.queue), _text(spec.requested), _text(spec.dependency), '""',
        _text(spec.from_host), _text(spec.cwd), _text(spec.files.input), _text(spec.files.output),
        _text(spec.files.error), '""', len(asked), *map(_text, asked), len(hosts),
        *map(_text, hosts), _DONE if is_done else _EXIT, "1.0",
        _text(f"{name}[{index}]" if past.array is not None else name), _text(spec.command), *usage,
        '""', _text(key.project), status, request.tasks_asked, '""', '""', index,
        ended.max_mem_kib if ended is not None else 0, 0, '""', '""', '""', '""', 0, '""',
        cause if cause < EndCause.STATUS_LOST else 0, '""', 0, _text(past.resreq),
    ]  # fmt: skip
    return " ".join(map(str, fields))
