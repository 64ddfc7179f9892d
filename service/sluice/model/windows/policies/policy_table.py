"""The policies of windows: one row each."""

from __future__ import annotations

from collections.abc import Mapping

from sluice.model.windows.policies.count_policy import Count
from sluice.model.windows.policies.delta_policy import Delta
from sluice.model.windows.policies.policy import Policy
from sluice.model.windows.policies.punct_policy import Punct
from sluice.model.windows.policies.since_policy import SinceFirst
from sluice.model.windows.policies.time_policy import Time

#: the word of a clause -> the policy, in the order of messages
POLICIES: Mapping[str, type[Policy]] = {policy.word: policy for policy in (Count, Time, SinceFirst, Delta, Punct)}
