"""What SPL's window library tells an operator, event by event: for traces, and for windowed operators of users' own.

The windows are those of the Aggregate, whose kernels are asked one item at a time: each rule stays in its one place, at
the cost of a call for each item.

told.py      the events, and what a window looks like to who hears of them
clock.py     tumbling and sliding windows
panes.py     timeInterval and slidingTime
choice.py    which of the two an operator has
handled.py   the operator that hands the events to a Python class
trace.py     the events as JSON
"""
