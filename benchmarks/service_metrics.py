"""What a running service says about itself on `/metrics`."""

from __future__ import annotations

import urllib.request

from prometheus_client.parser import text_string_to_metric_families

#: labels by whose value the samples of a metric are told apart
LABELS = ("phase", "step", "kind")

#: name of a metric and value of one of LABELS, "" without any -> the rest of a sample's name, with the upper bound of a
#: bucket behind it -> value
Samples = dict[tuple[str, str], dict[str, float]]


def scraped(port: int) -> Samples:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            label = next((sample.labels[one] for one in LABELS if one in sample.labels), "")
            rest = sample.name.removeprefix(family.name) + sample.labels.get("le", "")
            found.setdefault((family.name, label), {})[rest] = sample.value
    return found
