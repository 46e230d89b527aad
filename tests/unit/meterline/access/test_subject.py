"""What an upsert makes of a subject."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from meterline.access import KEPT, Subject, SubjectDraft, described

SUBJECT = Subject("01M7ZMF4YA7D2SQ292V0W9JPT8", "default", "customer-1", 1, 2, "One", '{"a":1}')
MEMBERS = (
    "display_name",
    "metadata",
    "current_period_start_ms",
    "current_period_end_ms",
    "stripe_customer_id",
)

texts = st.just(KEPT) | st.none() | st.text(max_size=3)
instants = st.just(KEPT) | st.none() | st.integers()
drafts = st.builds(SubjectDraft, st.just("customer-1"), texts, texts, instants, instants, texts)


@given(drafts)
def test_what_is_said_is_so_and_the_rest_stays(draft: SubjectDraft) -> None:
    after = described(SUBJECT, draft)
    for name in MEMBERS:
        said = getattr(draft, name)
        assert getattr(after, name) == (getattr(SUBJECT, name) if said is KEPT else said)
    unsaid = {name: getattr(SUBJECT, name) for name in MEMBERS}
    assert replace(after, **unsaid) == SUBJECT


@given(drafts)
def test_said_twice_is_said_once(draft: SubjectDraft) -> None:
    once = described(SUBJECT, draft)
    assert described(once, draft) == once
