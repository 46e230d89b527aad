"""When all brokers know that a topic has grown."""

from meterline.backends.kafka.growth import Answer, known_to_all

BOTH = frozenset({1, 2})


def test_the_broker_that_knows_least_counts() -> None:
    assert known_to_all({1: Answer(12, BOTH), 2: Answer(4, BOTH)}) == 4
    assert known_to_all({1: Answer(12, BOTH), 2: Answer(12, BOTH)}) == 12


def test_a_broker_that_only_another_one_names_must_say_it_too() -> None:
    asked = {1: Answer(12, BOTH), 2: Answer(12, BOTH | {3})}
    assert known_to_all(asked) == 0
    assert known_to_all(asked | {3: Answer(12, BOTH)}) == 12


def test_nobody_knows_anything() -> None:
    assert known_to_all({}) == 0
