"""The window events of SPL's window library, one by one: for traces, and for windowed operators that users write in
Python.

The windows are those of Aggregate, whose kernels are called with one item at a time. So each rule is implemented once,
at the cost of one call for each item.

window_events.py      the events, and the content of a window
clock_windows.py      the events of tumbling and sliding windows
pane_windows.py       the events of timeInterval and slidingTime windows
window_library.py     selects one of these two for an operator
handler_operator.py   the operator that passes the events to a Python class
trace.py              the events as JSON
"""
