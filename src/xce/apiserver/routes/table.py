"""Every route of REST: method, path, what it does, what it takes and gives."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from aiohttp import web

from xce.apiserver.action_body import ActionBody
from xce.apiserver.backend import Backend
from xce.apiserver.call import JSON, Call
from xce.apiserver.events import JobEvent
from xce.apiserver.fields import JobsAnswer, Row
from xce.apiserver.job_results import RUNS
from xce.apiserver.routes import (
    actions,
    apps,
    cluster,
    conditions,
    config,
    force,
    groups,
    history,
    host_actions,
    jobs,
    login,
    messages,
    output,
    plan,
    rbac,
    site,
    submit,
    terminal,
    trace,
    watch,
)
from xce.apiserver.routes.parameters import AT, FILTERS, INDEX, PAGES, PAST, USAGE, Parameter
from xce.apiserver.subject import ArrayHead
from xce.apiserver.submission_body import SubmissionBody
from xce.apiserver.why import WhyAnswer
from xce.journal.trace_rows import TraceAnswer

PREFIX: Final = "/xce/v1"

Handler = Callable[[Backend, Call], Awaitable[web.StreamResponse]]


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One route."""

    method: str
    path: str
    """Below ``/xce/v1``; ``{id}`` stands for a job id."""
    handler: Handler
    summary: str
    parameters: tuple[Parameter, ...] = ()
    headers: tuple[Parameter, ...] = ()
    """Headers that are its own."""
    takes: tuple[Any, ...] = ()
    """Types that the body may have; none: there is no body."""
    takes_lines: Any = None
    """Type of each line of an NDJSON body."""
    gives: tuple[Any, ...] = ()
    """Types that the answer may have; none: bytes of ``gives_media``."""
    gives_media: str = JSON
    status: int = 200
    is_read: bool = True
    """Whether ``XCE-Min-Seq`` makes it wait."""


ROUTES: Final = (
    Route(
        method="GET",
        path="/cluster",
        handler=cluster.show_cluster,
        summary="The cluster's name, version and settings, and who you are",
        gives=(cluster.ClusterRow,),
    ),
    Route(
        method="GET",
        path="/jobs",
        handler=jobs.list_jobs,
        summary="List jobs; one row may stand for a run of elements that are alike",
        parameters=(
            *FILTERS,
            Parameter("queue", "only jobs of this queue"),
            Parameter("host", "only jobs on this host"),
            Parameter("group", "only jobs of this job group, not of those below it"),
            Parameter("app", "only jobs of this application profile"),
            Parameter("state", "any of pend,psusp,run,susp,done,exit"),
            Parameter("host_names", "1: reasons name their hosts, as things are now", "integer"),
            USAGE,
            Parameter("ids", "12,13[1-5]: these, whatever state and owner, also long gone"),
            Parameter("fields", "members of the rows, separated by commas"),
            Parameter("limit", "most rows", "integer"),
            Parameter("cursor", "`next` of the page before"),
            AT,
        ),
        gives=(JobsAnswer,),
    ),
    Route(
        method="POST",
        path="/jobs",
        handler=submit.submit_jobs,
        summary="Submit a job, several, or (application/x-ndjson) one a line",
        takes=(SubmissionBody, submit.Submissions),
        takes_lines=SubmissionBody,
        gives=(submit.SubmitAnswer,),
        status=201,
        is_read=False,
    ),
    Route(
        method="POST",
        path="/jobs/actions",
        handler=actions.act_on_jobs,
        summary="Kill, stop, resume or signal jobs",
        headers=(Parameter(RUNS, "1: one result, with a count, may stand for several jobs"),),
        takes=(ActionBody,),
        gives=(actions.JobActions,),
        is_read=False,
    ),
    Route(
        method="GET",
        path="/jobs/{id}",
        handler=jobs.show_job,
        summary="One job, element, or array with the counts of its elements",
        parameters=(INDEX, USAGE, AT),
        gives=(Row, ArrayHead),
    ),
    Route(
        method="GET",
        path="/jobs/{id}/why",
        handler=jobs.show_why,
        summary="Why a job is where it is, what would let it start, and when it is expected to",
        parameters=(INDEX, Parameter("advice", "0: try nothing, only tell why", "integer"), AT),
        gives=(WhyAnswer,),
    ),
    Route(
        method="GET",
        path="/jobs/{id}/messages",
        handler=messages.list_messages,
        summary="What was written to a job or element that the cluster still has",
        parameters=(INDEX,),
        gives=(messages.MessagesAnswer,),
    ),
    Route(
        method="POST",
        path="/jobs/{id}/messages",
        handler=messages.post_message,
        summary="Write to a job or element that has not ended, in place of what the box holds",
        takes=(messages.MessageBody,),
        gives=(messages.PostAnswer,),
        status=201,
        is_read=False,
    ),
    Route(
        method="POST",
        path="/jobs/{id}/run",
        handler=force.force_job,
        summary="Start a pending job or element at once, out of its turn, on hosts that are named",
        takes=(force.ForceBody,),
        gives=(force.ForceAnswer,),
        is_read=False,
    ),
    Route(
        method="GET",
        path="/jobs/{id}/attachment",
        handler=messages.show_attachment,
        summary="The file that is attached to a message",
        parameters=(INDEX, Parameter("box", "of the message; 0 unless it is said", "integer")),
        gives_media="application/octet-stream",
    ),
    Route(
        method="POST",
        path="/conditions",
        handler=conditions.judge,
        summary="Whether a dependency condition holds; waits for it where asked to",
        takes=(conditions.ConditionBody,),
        gives=(conditions.ConditionAnswer,),
    ),
    Route(
        method="GET",
        path="/jobgroups",
        handler=groups.list_groups,
        summary="Job groups, and what is in them",
        gives=(groups.JobGroupsAnswer,),
    ),
    Route(
        method="POST",
        path="/jobgroups/actions",
        handler=groups.act_on_group,
        summary="Make a job group, change its limit, or delete it; others' with `job:modify`",
        takes=(groups.GroupBody,),
        gives=(groups.GroupDone,),
        is_read=False,
    ),
    Route(
        method="POST",
        path="/plan",
        handler=plan.plan_job,
        summary="What would become of a submission: taken or not, where and when it would run",
        takes=(SubmissionBody,),
        gives=(plan.PlanAnswer,),
    ),
    Route(
        method="GET",
        path="/jobs/{id}/output",
        handler=output.read_output,
        summary="What a job wrote: a piece, or all of it as it comes",
        parameters=(
            INDEX,
            Parameter(
                "stream", "stdout or stderr, or roles: how the tasks of its roles are, in JSON"
            ),
            Parameter("offset", "first byte", "integer"),
            Parameter("limit", "most bytes, at most 1 MiB", "integer"),
            Parameter("follow", "1: until the job is over", "integer"),
        ),
        gives_media=output.BYTES,
    ),
    Route(
        method="GET",
        path="/jobs/{id}/terminal",
        handler=terminal.attach_terminal,
        summary="What an interactive job writes, as frames, until it writes no more",
        parameters=(Parameter("offset", "first byte", "integer"),),
        gives_media=terminal.FRAMES,
    ),
    Route(
        method="POST",
        path="/jobs/{id}/terminal",
        handler=terminal.write_terminal,
        summary="Type at an interactive job: the body is what is typed, at most 64 KiB",
        parameters=(
            Parameter("place", "of the first byte of the body in all that is typed", "integer"),
            Parameter("end", "1: nothing will be typed behind it", "integer"),
            Parameter("rows", "of the window now", "integer"),
            Parameter("columns", "of the window now", "integer"),
            Parameter("hang_up", "1: the terminal is lost", "integer"),
        ),
        gives=(terminal.TerminalAnswer,),
        is_read=False,
    ),
    Route(
        method="GET",
        path="/jobs/{id}/script",
        handler=jobs.show_script,
        summary="The text that a job runs",
        parameters=(INDEX,),
        gives_media="text/plain",
    ),
    Route(
        method="GET",
        path="/jobs/{id}/environment",
        handler=jobs.show_environment,
        summary="The variables that a job was submitted with, NUL between them",
        parameters=(INDEX,),
        gives_media="text/plain",
    ),
    Route(
        method="GET",
        path="/jobs/{id}/spec",
        handler=jobs.show_spec,
        summary="A job, or an element, as a jobspec, whichever way it was submitted",
        parameters=(INDEX,),
        gives=(dict[str, Any],),
    ),
    Route(
        method="GET",
        path="/jobs/{id}/wait",
        handler=jobs.wait_for_job,
        summary="Wait for the end of a job: its row, or 204 after the timeout",
        parameters=(INDEX, Parameter("timeout", "seconds, at most 60", "integer")),
        gives=(Row, ArrayHead),
    ),
    Route(
        method="GET",
        path="/arrays",
        handler=cluster.list_arrays,
        summary="List arrays with how many of their elements are in which state",
        parameters=(*FILTERS, Parameter("ids", "12,13: these"), AT),
        gives=(cluster.ArraysAnswer,),
    ),
    Route(
        method="GET",
        path="/hosts",
        handler=cluster.list_hosts,
        summary="List the hosts",
        parameters=(Parameter("select", "only those that this select expression takes"), AT),
        gives=(cluster.HostsAnswer,),
    ),
    Route(
        method="POST",
        path="/hosts/actions",
        handler=host_actions.act_on_hosts,
        summary="Open or close hosts for new work, give them up, end or adopt strangers there",
        takes=(host_actions.HostsBody,),
        gives=(host_actions.HostActions,),
        is_read=False,
    ),
    Route(
        method="GET",
        path="/queues",
        handler=cluster.list_queues,
        summary="List the queues",
        parameters=(AT,),
        gives=(cluster.QueuesAnswer,),
    ),
    Route(
        method="POST",
        path="/queues/actions",
        handler=actions.act_on_queues,
        summary="Open or close queues for new jobs; let their jobs start, or not",
        takes=(actions.QueuesBody,),
        gives=(actions.QueueActions,),
        is_read=False,
    ),
    Route(
        method="POST",
        path="/config/actions",
        handler=config.act_on_config,
        summary="Put the configuration files in effect",
        takes=(config.ConfigBody,),
        gives=(config.ConfigAnswer,),
        is_read=False,
    ),
    Route(
        method="GET",
        path="/parameters",
        handler=site.show_parameters,
        summary="The configuration in LSF's words",
        gives=(site.ParametersAnswer,),
    ),
    Route(
        method="GET",
        path="/users",
        handler=site.list_users,
        summary="Users with unfinished jobs, counted in slots",
        gives=(site.UsersAnswer,),
    ),
    Route(
        method="GET",
        path="/groups",
        handler=site.list_groups,
        summary="Groups of users with shares, and domains of hosts",
        gives=(site.GroupsAnswer,),
    ),
    Route(
        method="GET",
        path="/apps",
        handler=apps.list_apps,
        summary="Application profiles, with what their jobs use in slots",
        gives=(apps.AppsAnswer,),
    ),
    Route(
        method="GET",
        path="/pools",
        handler=site.list_pools,
        summary="Consumable amounts of the whole cluster",
        gives=(site.PoolsAnswer,),
    ),
    Route(
        method="GET",
        path="/history/jobs",
        handler=history.list_courses,
        summary="Jobs with all that happened to them: a job row with `spans` and `steps`",
        parameters=(
            *PAST,
            Parameter("scope", "unfinished, all, finished, exited, pend, run or susp"),
            *PAGES,
        ),
        gives=(history.CoursesAnswer,),
    ),
    Route(
        method="GET",
        path="/history/usage",
        handler=history.list_usage,
        summary="One row for each attempt that is over, by their ends",
        parameters=(*PAST, Parameter("scope", "done or exited; else both"), *PAGES),
        gives=(history.CoursesAnswer,),
    ),
    Route(
        method="GET",
        path="/history/sums",
        handler=history.show_sums,
        summary="Sums over attempts that are over",
        parameters=(*PAST, Parameter("scope", "done or exited; else both")),
        gives=(history.SumsAnswer,),
    ),
    Route(
        method="GET",
        path="/trace",
        handler=trace.show_trace,
        summary="What traced sessions decided, and from what: the newest ones",
        parameters=(
            Parameter("job", "only of this job", "integer"),
            Parameter("user", "only of this user's jobs"),
            Parameter("queue", "only of this queue's jobs"),
            Parameter("session", "only of this session", "integer"),
            Parameter("limit", "most sessions (10)", "integer"),
            Parameter("now", "1: of a session run for the answer; goes with `job`", "integer"),
        ),
        gives=(TraceAnswer,),
    ),
    Route(
        method="GET",
        path="/trace/rules",
        handler=trace.list_trace_rules,
        summary="Of what sessions tell, and until when",
        gives=(trace.TraceRules,),
    ),
    Route(
        method="POST",
        path="/trace/actions",
        handler=trace.act_on_trace,
        summary="Have sessions tell of something for a while, or no more",
        takes=(trace.TraceBody,),
        gives=(trace.TraceActions,),
        is_read=False,
    ),
    Route(
        method="GET",
        path="/watch",
        handler=watch.watch,
        summary="What happens to jobs, as server-sent events",
        parameters=(
            Parameter("from_seq", "begin behind this entry; else with what comes now", "integer"),
            Parameter("user", "only this user's jobs"),
            Parameter("jobs", "12,13: only these"),
        ),
        gives=(JobEvent,),
        gives_media="text/event-stream",
    ),
    Route(
        method="GET",
        path="/rbac",
        handler=rbac.show_rbac,
        summary="Whether a user may do something, and why",
        parameters=(
            Parameter("user", "whom it is about; not given: the caller"),
            Parameter("permission", "such as job:kill"),
            Parameter("object", "cluster, queue:NAME, project:PATH or job:ID"),
        ),
        gives=(rbac.RbacAnswer,),
    ),
    Route(
        method="GET",
        path="/login",
        handler=login.show_login,
        summary="How users can log in",
        gives=(login.LoginWays,),
    ),
    Route(
        method="POST",
        path="/login",
        handler=login.log_in,
        summary="Log in: a proof of who one is gives tokens",
        takes=(login.LoginBody,),
        gives=(login.LoginAnswer,),
        status=201,
        is_read=False,
    ),
    Route(
        method="POST",
        path="/login/refresh",
        handler=login.refresh_login,
        summary="A new access token for a login that still counts",
        takes=(login.RefreshBody,),
        gives=(login.LoginAnswer,),
        is_read=False,
    ),
    Route(
        method="POST",
        path="/logins/revoke",
        handler=login.revoke_login,
        summary="Let a login, or all of a user, count no more",
        takes=(login.RevokeBody,),
        gives=(login.RevokeAnswer,),
        is_read=False,
    ),
    Route(
        method="GET",
        path="/ready",
        handler=cluster.show_ready,
        summary="Whether reads come from a live replica",
        gives=(cluster.ReadyAnswer,),
        is_read=False,
    ),
)
