"""List every parser of files that users provide."""

from tests.fuzz import answers, models, tables
from tests.fuzz.harness import Parser

PARSERS: list[Parser] = [*tables.PARSERS, *models.PARSERS, *answers.PARSERS]
NAMED: dict[str, Parser] = {parser.name: parser for parser in PARSERS}
