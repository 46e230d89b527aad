"""log -> windows. verdict, fold, slice are pure; step works over ports; poll_worker and
faust_worker are shells.
"""
