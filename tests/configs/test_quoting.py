"""Check that Hydra parses quoted values back unchanged."""

from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import example, given
from hypothesis import strategies as st

from src.configs.quoting import quote


@given(st.text('\\"\na ,['))
@example("a\\\n")
def test_hydra_parses_a_quoted_text_back_unchanged(text):
    assert OverridesParser.create().parse_override(f"key={quote(text)}").value() == text
