"""What the worker of a host that was not upgraded yet would leave out of a launch, unsaid.

Structs grow, and whoever is older reads past what he does not know. So what a job must have to run
as it was asked for is looked at before it is sent to him: it is tried elsewhere instead, as after a
pre-execution command that failed.
"""

from typing import Final

from xce.model.effect import Effect, Identify, Launch, SetLimits
from xce.model.job import EndCause
from xce.model.observation import AttemptEnded, Reported
from xce.model.process_limits import NO_LIMITS

SINCE: Final = 2
"""The protocol that has all this, and `SetLimits`: before it limits are those of the launch until
the end; and `Identify`: before it nothing that a restored journal lacks is taken up again.
"""


def split_launches(
    effects: tuple[Effect, ...], protocol: int, host: str
) -> tuple[tuple[Effect, ...], Reported | None]:
    """Return what a worker can be told, and what it would say of launches that it cannot do.

    Args:
        effects: All that its host must do.
        protocol: What it speaks.
        host: Its host.
    """
    if protocol >= SINCE:
        return effects, None
    told: list[Effect] = []
    ended: list[AttemptEnded] = []
    for effect in effects:
        if isinstance(effect, SetLimits | Identify):
            continue
        if not isinstance(effect, Launch) or not (lacking := find_lacking(effect)):
            told.append(effect)
            continue
        detail = f"host {host}: its worker is of a release without {lacking}: upgrade it"
        ended += [
            AttemptEnded(effect.job, index, attempt, 1, cause=EndCause.PRE_EXEC_FAIL, detail=detail)
            for index, attempt in zip(effect.indices, effect.attempts, strict=True)
        ]
    return tuple(told), Reported(host, 0, ended=tuple(ended)) if ended else None


def find_lacking(launch: Launch) -> str:
    """Return what of a launch a worker that speaks protocol 1 does not know; empty: it runs."""
    spec = launch.spec
    wanted = {
        "GPUs": launch.gpu is not None or any(launch.row_gpus) or any(map(any, launch.devices)),
        "commands before and after jobs": bool(launch.hooks),
        "processors of a job": any(launch.bindings),
        "self_fence": bool(launch.fence_us),
        "a warning before the end": bool(
            launch.warning_in_us or launch.warning_at_us or (spec.is_warned and launch.run_limit_us)
        ),
        "terminals": spec.terminal is not None,
        "limits of processes": spec.limits != NO_LIMITS,
        "checkpoints": spec.checkpoints is not None,
        "login shells": bool(spec.login_shell),
        "files that are copied": bool(spec.transfers),
        "output directories": bool(spec.output_dir),
        "a command for each role": spec.runs_by_roles,
    }
    return next((words for words, is_wanted in wanted.items() if is_wanted), "")
