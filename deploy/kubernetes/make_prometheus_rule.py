"""Makes the manifest of the alerts for the Prometheus operator from the rules that Prometheus itself reads:

python deploy/kubernetes/make_prometheus_rule.py > deploy/kubernetes/prometheus-rule.yaml
"""

from __future__ import annotations

import sys
from pathlib import Path

RULES = Path(__file__).parent.parent / "prometheus" / "rules.yml"
HEAD = """\
# The alerts of deploy/prometheus/rules.yml for the Prometheus operator. make_prometheus_rule.py makes this file.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: sluice
  namespace: sluice
  labels: {app.kubernetes.io/name: sluice}
spec:
"""


def manifest(rules: str) -> str:
    """The manifest with these rules. The groups keep their texts, two columns further to the right."""
    groups = rules[rules.index("groups:\n") :]
    return HEAD + "".join(f"  {line}" if line.strip() else line for line in groups.splitlines(keepends=True))


if __name__ == "__main__":
    sys.stdout.write(manifest(RULES.read_text(encoding="utf-8")))
