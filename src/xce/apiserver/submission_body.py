"""The body of a submission, member by member."""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from xce.apiserver.checkpoints import CheckpointsBody
from xce.apiserver.gpu_body import GpuBody
from xce.apiserver.process_limits import LimitsBody
from xce.model.checkpoint import CHECKPOINT
from xce.model.job import COMMAND_MAX, DESCRIPTION_MAX
from xce.model.mail import TEXT_MAX as MAIL_TEXT_MAX
from xce.model.request import TASKS_MAX
from xce.model.transfers import TRANSFERS_MAX
from xce.step.file_copy import PLACE_MAX

SCRIPT_MAX: Final = 16 * 1024 * 1024
ENV_MAX: Final = 4 * 1024 * 1024
INPUT_MAX: Final = 32 * 1024 * 1024
PATH_MAX: Final = 4096
TEXT_MAX: Final = 64 * 1024
"""Longest text of any other kind."""
ARGS_MAX: Final = 128 * 1024
ARGS_COUNT_MAX: Final = 10_000
ENV_COUNT_MAX: Final = 100_000
RESREQ_COUNT_MAX: Final = 64
SPAN_S_MAX: Final = 10 * 366 * 86_400
AT_S_MAX: Final = 253_402_300_799
MEM_KIB_MAX: Final = 1 << 50
PRIORITY_MAX: Final = 1 << 31

LOGIN_SHELL: Final = r"\A(/[A-Za-z0-9._+-]+)+\Z|\A\Z"
"""Paths of shells: nothing in them means something to a shell."""
Short = Annotated[str, Meta(max_length=1024)]
"""Names: of a queue or several, a project, a unit."""
Text = Annotated[str, Meta(max_length=TEXT_MAX)]
Path = Annotated[str, Meta(max_length=PATH_MAX)]
SignalNumber = Annotated[int, Meta(ge=0, le=CHECKPOINT)]
"""Up to 64; or `CHECKPOINT`."""
Command = Annotated[str, Meta(max_length=COMMAND_MAX)]
Description = Annotated[str, Meta(max_length=DESCRIPTION_MAX)]
LoginShell = Annotated[str, Meta(pattern=LOGIN_SHELL)]
Notices = Annotated[list[Literal["start", "done", "exit"]], Meta(max_length=3)]
Addresses = Annotated[str, Meta(max_length=MAIL_TEXT_MAX)]
TransferBody = tuple[
    Annotated[str, Meta(min_length=1, max_length=PATH_MAX)],
    Literal[">", "<", "<<", "><", "<>"],
    Annotated[str, Meta(min_length=1, max_length=PATH_MAX)],
    Annotated[str, Meta(min_length=1, max_length=PLACE_MAX)],
]
ExitStatus = Annotated[int, Meta(ge=1, le=255)]
Span = Annotated[float, Meta(ge=0, le=SPAN_S_MAX)]


class TerminalBody(msgspec.Struct, forbid_unknown_fields=True):
    """How an interactive job is connected."""

    mode: Literal["I", "Ip", "Is"]
    rows: Annotated[int, Meta(ge=0, le=65_535)] = 0
    columns: Annotated[int, Meta(ge=0, le=65_535)] = 0
    kind: Annotated[str, Meta(max_length=255)] = ""
    """``TERM``."""


class SubmissionBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One job. Exactly one of ``command``, ``script`` and ``script_data`` says what runs."""

    command: str | None = None
    script: str | None = None
    script_data: bytes | None = None
    """A script that is not UTF-8, in base64."""
    script_name: Path = ""
    args: Annotated[list[str], Meta(max_length=ARGS_COUNT_MAX)] = []
    """Arguments of a script."""
    env: Annotated[list[str], Meta(max_length=ENV_COUNT_MAX)] = []
    """``NAME=value``."""
    cwd: Path = "/"
    cwd_given: Path = ""
    """Where the job shall run: relative to ``cwd``, ``%J`` and the like are filled in."""
    name: Text = ""
    """May carry an index list: ``name[1-10]%5``."""
    array: Text = ""
    """The index list, perhaps with ``%limit``."""
    queue: Short = ""
    project: Short = ""
    tasks: tuple[int, int] | None = None
    """Fewest and most; left out: one, or what the parts of a compound request add up to."""
    nodes: Annotated[int, Meta(ge=0, le=TASKS_MAX)] = 0
    """So many whole hosts, which have at least ``tasks`` slots together; 0: not said."""
    resreq: Annotated[list[Text], Meta(max_length=RESREQ_COUNT_MAX)] = []
    unit_for_limits: Short = ""
    gpu: GpuBody | None = None
    """GPUs; what ``resreq`` says of them counts instead."""
    hosts: Text = ""
    exclusive: bool = False
    group: Text = ""
    """A job group, as ``/a/b``."""
    app: Short | None = None
    """The application profile; not given: the cluster's default one; empty: none."""
    rerunnable: bool | None = None
    """Whether it is started anew when its host fails; not given: as its queue has it."""
    requeue_codes: Annotated[list[ExitStatus], Meta(max_length=256)] = []
    """Exit statuses for which it is started anew; not given: as its queue has it."""
    requeue_elsewhere: Annotated[list[ExitStatus], Meta(max_length=256)] = []
    """Exit statuses for which it is started anew, and not on the same host again."""
    pre_exec: Command = ""
    """A command that runs before the job, on its first host."""
    post_exec: Command = ""
    """One that runs after it, however it ended."""
    warning_signal: SignalNumber = 0
    """Sent ``warning_s`` before the run limit; 0: none."""
    warning_s: Span | None = None
    warning_command: Command = ""
    """Run then in place of a signal, as the job's user in its environment."""
    hold: bool = False
    begin_at: Annotated[float, Meta(ge=0, le=AT_S_MAX)] | None = None
    deadline_at: Annotated[float, Meta(gt=0, le=AT_S_MAX)] | None = None
    """When it is ended if it still runs; it is not started where its run limit goes beyond."""
    run_limit_s: Span | None = None
    estimate_s: Span | None = None
    mem_limit_kib: Annotated[int, Meta(ge=0, le=MEM_KIB_MAX)] = 0
    limits: LimitsBody = LimitsBody()
    dependency: Text = ""
    ends_as_orphan: bool = False
    """Whether it ends at once when its dependency can never hold, whatever the cluster's grace."""
    input: Path = ""
    input_data: bytes | None = None
    """Content of the input, in base64: it is kept with the job."""
    output: Path = ""
    error: Path = ""
    output_append: bool = True
    error_append: bool = True
    output_dir: Path = ""
    """Made before the job; relative paths of output and error lie in it. As ``cwd_given``."""
    transfers: Annotated[list[TransferBody], Meta(max_length=TRANSFERS_MAX)] = []
    """Files that are copied before the start and after the end: a path from ``cwd``, an operator, a
    path from where the job runs, and the place of the first (`xce.step.file_copy`)."""
    checkpoints: CheckpointsBody | None = None
    description: Description = ""
    """For people."""
    from_host: Annotated[str, Meta(max_length=255)] = ""
    home: Path = ""
    umask: Annotated[int, Meta(ge=0, le=0o777)] = 0o022
    priority: Annotated[int, Meta(ge=-PRIORITY_MAX, le=PRIORITY_MAX)] = 0
    spec: str | dict[str, Any] | None = None
    """A jobspec: YAML or JSON as a text, or an object. What it says may not stand here too."""
    spec_name: Path = ""
    """What to call it where something is wrong with it."""
    placement_group: Short = ""
    """``NAME[,pack|spread][,hard|soft][,LEVEL]``."""
    login_shell: LoginShell = ""
    """Path of a shell whose login files are read before the job."""
    user_group: Short = ""
    """A group of the queue's shares that the user is in."""
    notices: Notices = []
    """What mail is wanted about: that it begins, that it has ended well, or otherwise."""
    mail_to: Addresses = ""
    """Addresses with commas or blanks between them; empty: the name of the one who submits."""
    terminal: TerminalBody | None = None
    """Of an interactive job: who submits it reads from it and types at it."""
