"""`sluice replay FILE --checkpoint`: repeats the last batches of a service and compares them with its output topics."""

from __future__ import annotations

import click
import orjson

from sluice.checkpoint.checkpoint_folder import placed_stages
from sluice.inspect.verify import ComparisonReport, verify
from sluice.model.spec import Pipeline
from sluice.ops.log_lines import configure


def repeat(pipeline: Pipeline) -> int:
    """Compares the records that each stage has written with a repetition of its batches. Returns the exit code.

    The exit code is 1 if a record differs, else 0.
    """
    configure(secrets=pipeline.settings.kafka.secrets)
    differ = False
    for stage in placed_stages(pipeline):
        compared = verify(stage)
        for difference in compared.differences:
            click.echo(orjson.dumps(difference._asdict()))
        differ |= bool(compared.differences)
        click.echo(summary(compared), err=True)
    return int(differ)


def summary(compared: ComparisonReport) -> str:
    found = f"differences in {count} topic partition(s)" if (count := len(compared.differences)) else "no difference"
    batches = f"batches {compared.first} to {compared.last}"
    return f"{compared.pipeline}: {batches}, {compared.records:,} output records: {found}"
