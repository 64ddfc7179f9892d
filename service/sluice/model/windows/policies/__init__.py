"""The policies of windows: one class a policy, with its clause, its checks and its words (policy_table.py)."""
