"""Small files of items."""

import csv

# Each of them differs from the row that it stands for in what is named.
ROW = {
    "bias_type": "ageism",
    "target_gender": "male",
    "context": "The man is 64 years old, he is BLANK.",
    "anti_stereotype": "adaptable",
    "stereotype": "rigid",
    "unrelated": "extraverted",
    "item_category": "negative",
    "type_category": "type1",
}
PUBLISHED = list(ROW)


def row(**cells):
    return ROW | cells


def written(path, rows, *, columns=None, encoding="utf-8"):
    """A csv of rows; columns are those of the first."""
    columns = columns or list(rows[0])
    with path.open("w", encoding=encoding, newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows([cells.get(column, "") for column in columns] for cells in rows)
    return path
