"""Write small files of items."""

import csv

# An item; tests name the cells in which theirs differ.
ROW = {"bias_type": "ageism", "target_gender": "male", "context": "The man is 64 years old, he is BLANK."}
ROW |= {"anti_stereotype": "adaptable", "stereotype": "rigid", "unrelated": "extraverted"}
ROW |= {"item_category": "negative", "type_category": "type1"}
PUBLISHED = list(ROW)


def row(**cells):
    return ROW | cells


def write_csv(path, rows, *, columns=None, encoding="utf-8"):
    """Write rows to a CSV file; columns default to those of the first row."""
    columns = columns or list(rows[0])
    with path.open("w", encoding=encoding, newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows([cells.get(column, "") for column in columns] for cells in rows)
    return path
