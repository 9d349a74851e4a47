"""A submission as REST takes it, and the typed one that the controller gets.

Texts in LSF's small languages are read here, with the configuration that holds now; what needs the
other jobs and queues is judged by the controller.
"""

import hashlib
import socket
from collections.abc import Callable, Sequence
from operator import methodcaller
from typing import Any, Final

import msgspec

from xce.apiserver.checkpoints import read_checkpoints
from xce.apiserver.gpu_body import compile_gpu, render_gpu
from xce.apiserver.identity import Caller
from xce.apiserver.notices import read_mail
from xce.apiserver.problems import ProblemError, refused
from xce.apiserver.process_limits import read_limits
from xce.apiserver.profile import choose_app
from xce.apiserver.spec_body import (
    FILE,
    ask_group,
    ask_spec,
    joined_env,
    members_of,
    read_body_spec,
)
from xce.apiserver.submission_body import (
    ARGS_MAX,
    ENV_MAX,
    INPUT_MAX,
    SCRIPT_MAX,
    TEXT_MAX,
    SubmissionBody,
)
from xce.apiserver.submission_checks import (
    check_paths,
    check_warning,
    check_word,
    read_terminal,
)
from xce.control.groups import refuse_name
from xce.jobspec.compile import Asked
from xce.jobspec.document import Spec
from xce.model.config import AppConfig, ClusterConfig
from xce.model.device import GpuWish
from xce.model.errors import TextError
from xce.model.group import is_group_name
from xce.model.ids import SECOND_US, Micros
from xce.model.job import COMMAND_MAX, ArraySpec, Files, JobSpec, Submission
from xce.model.refusal import RefusalCode
from xce.model.request import TASKS_MAX, Request
from xce.resreq.array import parse_job_name
from xce.resreq.built import refuse_not_built
from xce.resreq.compile import compile_request
from xce.resreq.errors import HostListError, JobNameError, LanguageError, NotBuiltError

_REMEMBERED: Final = 4096
_EQUALS_AT: Final = methodcaller("find", "=")


class Compiled(msgspec.Struct, frozen=True):
    """A submission with the blobs that it names."""

    submission: Submission
    blobs: tuple[tuple[str, bytes], ...]


class SubmissionCompiler:
    """Makes submissions; remembers what many of them have alike.

    Args:
        home_of: Gives the home directory of a user id.
        host: The name of this machine.
    """

    def __init__(
        self, *, home_of: Callable[[int], str] = lambda _: "", host: str | None = None
    ) -> None:
        self._home_of = home_of
        self._host = socket.gethostname() if host is None else host
        self._config: ClusterConfig | None = None
        self._requests: dict[tuple[object, ...], Request] = {}
        self._names: dict[str, tuple[str, ArraySpec | None, str]] = {}
        self._hashes: dict[bytes, str] = {}

    def compile(self, body: SubmissionBody, caller: Caller, config: ClusterConfig) -> Compiled:
        """Return what ``body`` asks for.

        Raises:
            ProblemError: It cannot be read, or is too large.
        """
        self._follow(config)
        for member in ("project", "from_host"):
            check_word(member, getattr(body, member))
        spec = None
        if body.spec is not None:
            spec = read_body_spec(body.spec, body.spec_name)
            body = _with_spec(body, spec)
        text, command = read_program(body)
        name, array, index_list = self.name(body, config)
        blobs = [(self.hash(text), text)]
        check_paths(body)
        check_warning(
            body.warning_signal, body.warning_command.strip(), to_micros(body.warning_s),
            has_checkpoints=body.checkpoints is not None,
        )  # fmt: skip
        app = choose_app(body.app, config)
        asked = self._asked(body, spec, config, app)
        job = JobSpec(
            name=name,
            command=command,
            script=blobs[0][0],
            env=self._environment(body, blobs),
            cwd=body.cwd,
            files=self.files(body, blobs),
            from_host=body.from_host or self._host,
            home=body.home or self._home_of(caller.owner.uid),
            umask=body.umask,
            mem_limit_kib=body.mem_limit_kib,
            dependency=body.dependency.strip(),
            requested=" ".join(body.resreq),
            hosts_asked=body.hosts,
            array=index_list,
            cwd_asked=body.cwd_given,
            args=read_arguments(body),
            gpu_asked="" if body.gpu is None else render_gpu(body.gpu),
            roles=asked.roles,
            relations=asked.relations,
            runs_by_roles=asked.runs_by_roles,
            requests=tuple(body.resreq) if len(body.resreq) > 1 else (),
            tasks_asked=body.tasks or (0, 0),
            unit=body.unit_for_limits,
            run_limit_asked_us=to_micros(body.run_limit_s),
            checkpoints=read_checkpoints(
                body.checkpoints, config, is_interactive=body.terminal is not None
            ),
            **_manner_of(body),
        )
        return Compiled(_submission(body, job, asked.request, array, app.name), tuple(blobs))

    def _follow(self, config: ClusterConfig) -> None:
        """Forget what was made under another configuration."""
        if config is not self._config:
            self._config = config
            self._requests.clear()
            self._names.clear()

    def _environment(self, body: SubmissionBody, blobs: list[tuple[str, bytes]]) -> str:
        """Return the hash of the environment, which is added to ``blobs``; empty: there is none."""
        env = _environment(body.env)
        if not env:
            return ""
        digest = self.hash(env)
        blobs.append((digest, env))
        return digest

    def files(self, body: SubmissionBody, blobs: list[tuple[str, bytes]]) -> Files:
        """Return where the streams go; a spooled input is added to ``blobs``.

        Raises:
            ProblemError: It is too large.
        """
        input_blob = ""
        if body.input_data is not None:
            if len(body.input_data) > INPUT_MAX:
                raise _too_large("input_data", len(body.input_data), INPUT_MAX)
            input_blob = self.hash(body.input_data)
            blobs.append((input_blob, body.input_data))
        return Files(
            body.input, body.output, body.error, body.output_append, body.error_append, input_blob
        )

    def hash(self, content: bytes) -> str:
        """Return the hash of a blob."""
        found = self._hashes.get(content)
        if found is None:
            found = hashlib.blake2b(content, digest_size=16).hexdigest()
            if len(content) <= TEXT_MAX:
                if len(self._hashes) >= _REMEMBERED:
                    self._hashes.clear()
                self._hashes[content] = found
        return found

    def name(
        self, body: SubmissionBody, config: ClusterConfig
    ) -> tuple[str, ArraySpec | None, str]:
        """Return the name, the array, and the index list as given."""
        if not body.name and not body.array:
            return "", None, ""
        text = f"{body.name or '-'}{_brackets(body.array)}" if body.array else body.name
        found = self._names.get(text)
        if found is None:
            try:
                found = parse_job_name(text, max_size=config.max_array_size)
            except JobNameError as error:
                raise _name_refused(error) from error
            if len(self._names) >= _REMEMBERED:
                self._names.clear()
            self._names[text] = found
        return found if body.name else ("", *found[1:])

    def _asked(
        self, body: SubmissionBody, spec: Spec | None, config: ClusterConfig, app: AppConfig
    ) -> Asked:
        """Return the request with the roles and relations of a jobspec."""
        if spec is None and not body.placement_group:
            return Asked(self._request(body, config, app), (), ())
        try:
            if spec is None:
                return ask_group(body.placement_group, self._request(body, config, app), config)
            if not spec.roles:
                request = self._request(body, config, app)
                return ask_spec(spec, config, request=request, group=body.placement_group)
            if app.resreq:
                text = f"application profile {app.name} has a requirement: it takes no roles"
                raise refused(RefusalCode.BAD_SPEC, text)
            return ask_spec(
                spec,
                config,
                hosts=body.hosts,
                exclusive=body.exclusive,
                group=body.placement_group,
            )
        except LanguageError as error:
            raise language_refused(error) from error
        except TextError as error:
            raise refused(RefusalCode.BAD_SPEC, error.message, column=error.column) from error

    def _request(self, body: SubmissionBody, config: ClusterConfig, app: AppConfig) -> Request:
        unit = body.unit_for_limits or config.lsf_unit_for_limits
        gpu = "" if body.gpu is None else render_gpu(body.gpu) + str(body.gpu)
        key = (
            body.tasks, tuple(body.resreq), body.hosts, body.exclusive, unit, body.nodes, gpu,
            app.resreq,
        )  # fmt: skip
        found = self._requests.get(key)
        if found is None:
            found = compile_resources(body, config, unit, base=app.resreq)
            if len(self._requests) >= _REMEMBERED:
                self._requests.clear()
            self._requests[key] = found
        return found


def _manner_of(body: SubmissionBody) -> dict[str, Any]:
    """Return the members of a `JobSpec` that say how it runs, and what is said of it."""
    return {
        "terminal": read_terminal(body),
        "login_shell": body.login_shell,
        "user_group": body.user_group,
        "ends_as_orphan": body.ends_as_orphan,
        "requeue_codes": tuple(sorted({*body.requeue_codes, *body.requeue_elsewhere})),
        "requeue_elsewhere": tuple(sorted(set(body.requeue_elsewhere))),
        "pre_exec": body.pre_exec.strip(),
        "post_exec": body.post_exec.strip(),
        "warning_signal": body.warning_signal,
        "warning_us": to_micros(body.warning_s),
        "warning_command": body.warning_command.strip(),
        "deadline_us": to_micros(body.deadline_at),
        "description": body.description,
        "output_dir": body.output_dir,
        "transfers": tuple(body.transfers),
        "limits": read_limits(body.limits),
        **read_mail(body),
    }


def _submission(
    body: SubmissionBody, job: JobSpec, request: Request, array: ArraySpec | None, app: str
) -> Submission:
    return Submission(
        spec=job,
        request=request,
        queue=body.queue,
        project=body.project,
        array=array,
        hold=body.hold,
        begin_at_us=to_micros(body.begin_at),
        run_limit_us=to_micros(body.run_limit_s),
        estimate_us=to_micros(body.estimate_s),
        priority=body.priority,
        rerunnable=body.rerunnable,
        group=read_group(body.group),
        app=app,
    )


def _with_spec(body: SubmissionBody, spec: Spec) -> SubmissionBody:
    """Return a submission with what its jobspec says."""
    members = members_of(spec)
    taken = {**members, "resreq": spec, "tasks": spec, "nodes": spec, "gpu": spec}
    defaults = SubmissionBody()
    for name in taken:
        if getattr(body, name) != getattr(defaults, name):
            raise refused(
                RefusalCode.BAD_REQUEST,
                f"{name} stands beside the jobspec, which says it"
                if name in members
                else f"{name} stands beside the jobspec: say it there",
            )
    env = joined_env(body.env, spec.env)
    whole = {**msgspec.structs.asdict(body), **members, "env": env, "spec": None}
    try:
        return msgspec.convert(whole, SubmissionBody)
    except msgspec.ValidationError as error:
        raise refused(RefusalCode.BAD_SPEC, f"{body.spec_name or FILE}: {error}") from error


def read_group(text: str) -> str:
    """Return the job group that a text names; empty: none, the root.

    Raises:
        ProblemError: It is no name of one.
    """
    name = text.strip().rstrip("/")
    if name and not is_group_name(name):
        problem = refuse_name(text)
        raise refused(problem.code, problem.text, lsf=problem.lsf)
    return name


def _is_cluster(name: str, config: ClusterConfig) -> bool:
    """Return whether the hosts asked for are the cluster itself, by its name."""
    name = name.strip()
    return name == config.cluster_name and all(host.name != name for host in config.hosts)


def compile_resources(
    body: SubmissionBody,
    config: ClusterConfig,
    unit: str,
    *,
    base: str = "",
    wish: GpuWish | None = None,
) -> Request:
    """Return what a submission asks for, with the requirement of its profile under it.

    Args:
        body: The submission.
        config: What holds now.
        unit: Of bare sizes.
        base: The requirement of the profile.
        wish: GPUs, where the submission itself says nothing of them.

    Raises:
        ProblemError: It cannot be read.
    """
    least, most = body.tasks or (1, 1)
    if not 1 <= least <= most:
        raise refused(
            RefusalCode.TOO_FEW_TASKS,
            f"tasks {least},{most}: expected 1 <= min <= max",
            lsf="Too few processors requested",
        )
    if most > TASKS_MAX:
        raise refused(
            RefusalCode.TOO_MANY_TASKS,
            f"{most} tasks; at most {TASKS_MAX} are allowed",
            lsf="Too many processors requested",
        )
    try:
        request = compile_request(
            body.resreq,
            config=config,
            tasks=body.tasks,
            hosts="" if _is_cluster(body.hosts, config) else body.hosts,
            exclusive=body.exclusive,
            unit=unit,
            gpu=wish if body.gpu is None else compile_gpu(body.gpu),
            whole_hosts=body.nodes,
            base=base,
        )
        missing = refuse_not_built(request, config=config, texts=body.resreq)
        if missing is not None:
            raise missing
        return request
    except LanguageError as error:
        raise language_refused(error) from error
    except TextError as error:
        raise refused(RefusalCode.BAD_RESREQ, error.message, column=error.column) from error


def language_refused(error: LanguageError) -> ProblemError:
    """Return the refusal of a text that could not be read."""
    if isinstance(error, NotBuiltError):
        code = RefusalCode.NOT_BUILT
    elif isinstance(error, HostListError):
        code = RefusalCode.UNKNOWN_HOST
    else:
        code = RefusalCode.BAD_RESREQ
    return refused(code, error.message, lsf=error.lsf, column=error.column)


def _name_refused(error: JobNameError) -> ProblemError:
    if "too large" in error.lsf:
        code = RefusalCode.ARRAY_TOO_LARGE
    elif "array" in error.lsf:
        code = RefusalCode.BAD_ARRAY
    else:
        code = RefusalCode.BAD_REQUEST
    return refused(code, error.message, lsf=error.lsf, column=error.column)


def _brackets(array: str) -> str:
    items, percent, limit = array.partition("%")
    return f"[{items}]{percent}{limit}"


_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


def read_program(body: SubmissionBody) -> tuple[bytes, str]:
    """Return the text that runs, and the command as listings show it.

    Raises:
        ProblemError: There is none, or it is none.
    """
    given = [x for x in (body.command, body.script, body.script_data) if x is not None]
    if len(given) != 1:
        raise refused(
            RefusalCode.EMPTY_JOB if not given else RefusalCode.BAD_REQUEST,
            f"{len(given)} of command, script and script_data were given; exactly one is needed",
            lsf="" if given else "Empty job",
        )
    content = given[0] if isinstance(given[0], bytes) else _encode(given[0], "the command")
    # An editor's mark, which no program and no shell understands.
    content = content.removeprefix(_BYTE_ORDER_MARK)
    if not content.strip():
        raise refused(RefusalCode.EMPTY_JOB, "there is no command", lsf="Empty job")
    if len(content) > SCRIPT_MAX:
        raise _too_large("the script", len(content), SCRIPT_MAX)
    if b"\0" in content:
        raise refused(RefusalCode.BAD_REQUEST, "the script holds NUL bytes, so it is no text")
    if body.command is None and body.script_name:
        shown = " ".join([body.script_name, *body.args])
    else:
        shown = body.command if body.command is not None else content.decode("utf-8", "replace")
        shown = shown.strip("\n")
    return content, shown.replace("\n", ";")[:COMMAND_MAX]


def _environment(items: Sequence[str]) -> bytes:
    if not items:
        return b""
    joined = "\0".join(items)
    if joined.count("\0") != len(items) - 1:
        raise refused(RefusalCode.BAD_REQUEST, "an item of env holds a NUL character")
    if min(map(_EQUALS_AT, items)) < 1:
        bad = next(item for item in items if item.find("=") < 1)
        raise refused(RefusalCode.BAD_REQUEST, f"env: {bad[:40]!r} is not of the form NAME=value")
    content = _encode(joined, "env")
    if len(content) > ENV_MAX:
        raise _too_large("env", len(content), ENV_MAX)
    return content


def read_arguments(body: SubmissionBody) -> tuple[str, ...]:
    """Return the arguments of a script.

    Raises:
        ProblemError: They are too long, or belong to no script.
    """
    if not body.args:
        return ()
    if body.command is not None:
        raise refused(RefusalCode.BAD_REQUEST, "args belong to a script; a command has its own")
    if sum(map(len, body.args)) > ARGS_MAX or "\0" in "".join(body.args):
        raise refused(
            RefusalCode.TOO_LARGE, f"args are longer than {ARGS_MAX} characters, or hold NUL"
        )
    return tuple(body.args)


def _encode(text: str, what: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise refused(RefusalCode.BAD_REQUEST, f"{what} is not valid Unicode") from error


def _too_large(what: str, size: int, most: int) -> ProblemError:
    return refused(RefusalCode.TOO_LARGE, f"{what} has {size} bytes, at most {most} are allowed")


def to_micros(seconds: float | None) -> Micros:
    """Return seconds in microseconds: the nearest one, and nothing only for nothing."""
    return max(1, round(seconds * SECOND_US)) if seconds else 0
