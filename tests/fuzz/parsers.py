"""List every parser of files that users provide."""

from tests.fuzz import answers, models, people, tables
from tests.fuzz.harness import Parser

PARSERS: list[Parser] = [*tables.PARSERS, *people.PARSERS, *models.PARSERS, *answers.PARSERS]
NAMED: dict[str, Parser] = {parser.name: parser for parser in PARSERS}
