"""Refuse mistakes in the settings and the code of each example (a subfolder of tests/extending)."""

import pytest

from tests.extending.conftest import WORLD
from tests.extending.test_layout import LAYOUT
from tests.extending.test_measure import SMALL

# Example -> overrides that run it.
CHOICES = {
    "encoder": ["model=colours", *WORLD],
    "layout": LAYOUT,
    "measure": [*SMALL, "exp=faces_to_words"],
    "study": ["exp=dispersion"],
}
# Example -> overrides with a mistake -> text of the refusal.
MISTAKES = {
    "encoder": {
        "+model.options.wide=3": "model.options: Key 'wide'",
        "model.options.width=1": "model.options.width=1: must be at least 2",
        "model.family=open_clp": "model.family: unknown name 'open_clp'. Did you mean 'open_clip'?",
        "model.family=colours:FAMILIES": "model.family=colours:FAMILIES: cannot be imported",
        "exp.study=colours:FAMILY": "expected Study, got EncoderFamily",
    },
    "layout": {
        "+faces.options.suffx=.jpg": "unexpected keyword argument 'suffx'. Its options are root, suffix",
        "faces.loader=folder": "loader: unknown name 'folder'. Name your own as module:attribute",
        "faces.loader=folders:Path": "expected function, got type",
        "exp=faces_to_words": "faces.options.root: not set",
    },
    "measure": {
        "protocol.intrinsic=superiority:SUPERIOR": "intrinsic=superiority:SUPERIOR: cannot be imported",
        "protocol.extrinsic=zeroshot": "extrinsic: unknown name 'zeroshot'. Did you mean 'zero_shot'?",
        "protocol.extrinsic=superiority:SUPERIORITY": "expected ExtrinsicOutcome, got IntrinsicMeasure",
        "protocol.intrinsic=superiority:FLAT": "of shape (66, 1) (targets, sets A), got",
    },
    "study": {
        "+exp.options.min_face=3": "exp.options: Key 'min_face'",
        "exp.options.min_faces=500": "exp.options.min_faces=500: ",
        "exp.options.min_faces=1": "exp.options.min_faces=1: must be at least 2",
        "exp.study=implicitt": "Did you mean 'implicit'?",
    },
}


@pytest.mark.parametrize(
    ("folder", "mistake", "message"),
    [(folder, *pair) for folder, mistakes in MISTAKES.items() for pair in mistakes.items()],
    indirect=["folder"],
)
def test_mistakes_are_named(run, capsys, vector_overrides, folder, mistake, message):
    chosen = [*CHOICES[folder.name]]
    if folder.name in ("measure", "study"):
        chosen += vector_overrides
    if folder.name == "layout" and "not set" not in message:
        chosen += ["faces.options.root=nowhere"]
    assert run("refused", *chosen, mistake, sweep=False).code == 1
    printed = capsys.readouterr()
    text = " ".join((printed.err + printed.out).split())
    assert message in text
    assert "Traceback" not in text
