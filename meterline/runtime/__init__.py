"""The composition root: settings, wiring, processes, command line. Nothing else knows which set-up
it is in.
"""
