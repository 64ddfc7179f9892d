"""The service: the HTTP port, the Spark session, and one pipeline or several, until a signal ends it.

A service of one pipeline file ends when the pipeline fails, and its exit code says why. A service of several pipelines
continues: it starts the failed one again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from sluice import __version__
from sluice.model.spec import Pipeline
from sluice.model.stages import stages
from sluice.ops.exposition import Exposition, memory_of_processes
from sluice.ops.http_server import OpsServer
from sluice.ops.log_lines import in_form
from sluice.ops.metrics import Metrics
from sluice.ops.pipelines import Pipelines, PipelineStatus, Registered, Role, State
from sluice.page.page_app import application
from sluice.page.pipeline_pages import Pages
from sluice.page.pipeline_status import overview
from sluice.planning.pipeline_set import cautions
from sluice.processes import ExitDeadline, end_at_once, stop_signals
from sluice.running.pipeline_folder import Found, Wanted
from sluice.running.pipeline_thread import PipelineThread, arm
from sluice.running.service_options import Options, Page, Restart
from sluice.running.supervisor import Run, Supervisor
from sluice.spark.failures import explaining
from sluice.spark.pipeline.early_processes import EarlyProcesses
from sluice.spark.pipeline.pipeline_run import PipelineRun, zero_report
from sluice.spark.pipeline.shared_session import SharedSession
from sluice.spark.pipeline.standby import Standby
from sluice.spark.query_watch import FINISH, GRACE, STOP, StopRequest

LOGGER = logging.getLogger("sluice")
#: seconds between two checks of the pipelines, and between two checks of the files
INTERVAL, SCAN = 0.25, 1.0
#: the name of the Spark application of several pipelines
NAME = "sluice"


def serve(pipeline: Pipeline, file: str, options: Options, early: EarlyProcesses | None) -> None:
    """Runs one pipeline until SIGTERM or SIGINT or, with `until_final`, until all inputs are final.

    `early` has what runs already. Raises the error that made a query fail.
    """
    member = Registered(pipeline, _metrics_of(pipeline), status=PipelineStatus(file=file))
    pipelines = Pipelines()
    pipelines.register(member)
    pages = Pages(pipelines)
    with (
        ExitDeadline(GRACE, _end_at_once) as exit_deadline,
        stop_signals(exit_deadline) as stop_requested,
        ExitStack() as stack,
        exit_deadline.ending(),
        explaining(),
    ):
        session = SharedSession(pipeline.name, options.master, early)
        run = PipelineRun(
            member, pages.of(pipeline), session, reset_ledger=options.reset_ledger, accept=options.accept,
            until_final=options.until_final,
        )  # fmt: skip
        stack.enter_context(run.locks())
        _open_port(options, pipelines, pages, stack)
        stack.enter_context(session)
        session.begin([pipeline], stop_requested.wait)  # beside the checks of topics, checkpoint and ledger
        run.run(StopRequest(stop_requested), partial(arm, exit_deadline))


def serve_several(
    first: Found,
    scan: Callable[[], Found | None] | None,
    options: Options,
    early: EarlyProcesses | None,
    *,
    only: Wanted | None = None,
) -> None:
    """Runs several pipelines until SIGTERM or SIGINT or, without `scan`, until none of them is to run any more.

    `first` has the pipelines at the start. `scan`, which is called once a second, gives the pipelines after a change of
    files, or None. `early` has what runs already. `only` is the pipeline of a service that never has another one.
    Raises the first failure of a pipeline that is not started again if the service then ends by itself, and at once an
    error after which no pipeline can run.
    """
    several = only is None
    pipelines = Pipelines(several=several)
    pages = Pages(pipelines)
    with (
        ExitDeadline(GRACE, _end_at_once) as exit_deadline,
        stop_signals(exit_deadline) as stop_requested,
        ExitStack() as stack,
        exit_deadline.ending(),
        explaining(),
    ):
        _open_port(options, pipelines, pages, stack)
        name = NAME if only is None else only.pipeline.name
        session = stack.enter_context(SharedSession(name, options.master, early, several=several))

        def launch(member: Registered, *, first: bool) -> Run:
            present = [registered.pipeline for registered in pipelines.members]
            spark, placed = session.opened(
                [stage for pipeline in present for stage in stages(pipeline)], stop_requested.wait
            )
            run = PipelineRun(
                member, pages.of(member.pipeline), session,
                reset_ledger=options.reset_ledger and first, accept=options.accept, until_final=options.until_final,
            )  # fmt: skip
            report = partial(_report_role, pipelines, member.name)
            standby = Standby(member.pipeline, None if placed else spark, report) if options.standby else None
            ends_service = only is not None and options.restart_of(member.pipeline) is Restart.NEVER
            # a deadline apart from the deadline of a request to stop: a take-over by another instance disarms it
            of_failure = ExitDeadline(GRACE, _end_at_once) if ends_service else None
            return PipelineThread(member.name, run, standby, of_failure)

        supervisor = Supervisor(launch, pipelines, options.restart_of, time.monotonic, _metrics_of)
        _follow(supervisor, pipelines, first)
        scanned = time.monotonic()
        while not stop_requested.wait(INTERVAL) and supervisor.fatal is None:
            supervisor.tick()
            if not supervisor.active and (scan is None or options.until_final):
                break
            if scan is not None and time.monotonic() - scanned >= SCAN:
                newer, scanned = scan(), time.monotonic()
                if newer is not None:
                    _follow(supervisor, pipelines, newer)
        failure = supervisor.fatal or (None if stop_requested.is_set() else supervisor.failure)
        _end(supervisor)
        if failure is not None:
            raise failure
        LOGGER.info("ended")


#: by the role before and the new role: the state that begins. A leader that has lost the lead must end its run before
#: the next run waits for the lead
STATES = {
    (Role.ALONE, Role.LEADER): State.STARTING,
    (Role.ALONE, Role.STANDBY): State.STANDBY,
    (Role.STANDBY, Role.LEADER): State.STARTING,
    (Role.LEADER, Role.STANDBY): State.STOPPING,
}


def _report_role(pipelines: Pipelines, name: str, role: Role, trouble: str) -> None:
    """Writes the role of this instance into the status of the pipeline. A new role is the beginning of a new state."""
    status = next(member.status for member in pipelines.members if member.name == name)
    if status.role is not role:
        pipelines.update(name, role=role, state=STATES[status.role, role])
    if role is Role.STANDBY and status.error != trouble:
        pipelines.update(name, error=trouble)


def _follow(supervisor: Supervisor, pipelines: Pipelines, files: Found) -> None:
    for hint in cautions({file.file: file.pipeline for file in files.wanted.values()}):
        LOGGER.warning("%s", hint)
    if not files.wanted:
        LOGGER.warning("there is no pipeline file that can run; waiting for files")
    pipelines.set_wrong_files(files.wrong)
    supervisor.set_wanted(files.wanted)


def _end(supervisor: Supervisor) -> None:
    """Stops all pipelines together, and waits for them as long as the batch of one may take to finish."""
    supervisor.stop()
    deadline = time.monotonic() + FINISH + STOP
    while supervisor.active and time.monotonic() < deadline:
        supervisor.tick()
        time.sleep(INTERVAL)


def _open_port(options: Options, pipelines: Pipelines, pages: Pages, stack: ExitStack) -> None:
    if options.http_port is None:
        return
    page = None if options.page is Page.OFF else application(pages, local=options.page is Page.LOCAL)
    status = partial(overview, pages, memory_of_processes)
    server = stack.enter_context(
        OpsServer(options.http_port, Exposition(pipelines).page, pipelines, page=page, status=status)
    )
    LOGGER.info("metrics at http://localhost:%s/metrics", server.port)
    if page is not None:
        LOGGER.info("page at http://localhost:%s/", server.port)


def _metrics_of(pipeline: Pipeline) -> Metrics:
    """New metrics of a pipeline, with all counters at 0: a rate needs a counter that exists before its first change."""
    metrics = Metrics(__version__)
    for stage in stages(pipeline):
        metrics.count(zero_report(stage))
    return metrics


def _end_at_once(exit_code: int, message: str) -> None:
    end_at_once(exit_code, in_form(message, plain=f"sluice: {message}"))
