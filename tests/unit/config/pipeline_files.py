"""Pipeline files for the tests of this folder."""

from textwrap import dedent

from sluice.config.load import load_text

SCHEMA = "{symbol: string, price: float64, size: int64, time: timestamp, open: boolean, bids: list<float64>}"


def loaded(text, **how):
    return load_text(dedent(text), "pipeline.yaml", **how)


def aggregate(window="tumbling, count(2)", output="{n: Count()}", more=""):
    """A file with one operator."""
    return f"""\
pipeline: one
streams:
  trades: {{topic: trades, schema: {SCHEMA}}}
  out: {{topic: out}}
operators:
  - name: only
    aggregate: trades
    window: {window}
    output: {{out: {output}}}
{more}
"""
