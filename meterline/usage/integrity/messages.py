"""What is said of two stores that do not fit, and what to do then (pure)."""

from collections.abc import Mapping


def lost_message(what: str, known: str | None) -> str:
    """Of a store that lacks something. `known`: its id, where the control store knows one."""
    message = (
        f"the usage store has lost what was counted: {what}."
        " Nothing is answered, counted or delivered from it. Check that usage_url or data_dir is"
        " right and that the volume is mounted. Else restore the newest backup of all three stores"
    )
    if known is None:
        return message
    return (
        f"{message}. If there is none, begin with an empty usage store, and set usage_lost to"
        f" {known}: everything that the log still holds is then counted again (docs/operations.md,"
        " 'When a store is lost or damaged')"
    )


def not_empty_message(lost: str, left: Mapping[str, int]) -> str:
    """Of a store that has rows, and is to be counted into anew."""
    table, rows = max(left.items(), key=lambda it: (it[1], it[0]))
    return (
        f"usage_lost is set to {lost}, but the usage store still has rows: {rows} in the table"
        f" {table}. Events that are counted again beside them could count twice. Nothing was"
        " changed. Stop all processes of Meterline, and begin with an empty usage store: point"
        " usage_url to a new database, or move the folder usage of data_dir away. Then start again."
        " To use these rows, restore the newest backup of all three stores, and remove usage_lost"
    )


def other_store_message(known: str | None, found: tuple[str, ...]) -> str:
    """Of a usage store with another id than the control store knows."""
    ids = ", ".join(found)
    if known is None:
        return (
            f"the control store is new, but the usage store ({ids}) was counted into before: the"
            " control store is lost, or the settings lead to another one. Point control_url or"
            " data_dir to the right one, or restore its backup. To start anew, use a new usage"
            " store (usage_url, or an empty data_dir) and a new log"
        )
    return (
        f"the usage store has the id {ids}, but this control store counts into {known}: it belongs"
        " to another installation. Point usage_url and control_url to stores that belong together"
    )


def needless_message(lost: str, known: str) -> str:
    """Of `usage_lost` beside a usage store that lacks nothing, which has the id `known`."""
    if lost == known:
        return (
            "usage_lost names the usage store that is in use, which lacks nothing. Remove the"
            " setting: with it, a loss of this store is accepted without being told"
        )
    return (
        f"usage_lost names a store ({lost}) that is not counted into any more. Remove the setting:"
        " it is not needed"
    )
